"""The flags that fields make: what they name, what the parsers and the commands make of them."""

import re
from argparse import ArgumentParser, Namespace

import pytest

from servemark.cli import build
from servemark.cli._load_flags import takes_load
from servemark.documents.fields import ALL, RUN, Names
from servemark.documents.flags import OPTIONS, Option, add_arguments, arguments, from_locust, request_of
from servemark.documents.load import ClosedLoop, ConstantRate

KINDS = {
    "FILE": {Names.PATH},
    "DIR": {Names.PATH, Names.PROGRAM},
    "PATH": {Names.PROGRAM},
    "URL": {Names.HOST},
    "NAME=URL[#PREFIX,...]": {Names.HOST},
    "HOST": {Names.HOST},
    "PORT": {Names.HOST},
    "CMD": {Names.PROGRAM},
    "S:COMMAND": {Names.PROGRAM},
    "KEY[=VALUE]": {Names.PROGRAM},
}
"""The metavar that a flag shows -> the kinds of things that it can name."""


WORD_OR_FILE = {"input_data": "zero", "endpoint_type": "kserve-v1"}
"""Flags that take a word or a file -> such a word."""


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_a_flag_names_what_its_metavar_shows(option: Option) -> None:
    flag = option.flag
    if flag.metavar in KINDS:
        assert flag.names in KINDS[flag.metavar]
    elif option.name in WORD_OR_FILE:
        assert flag.names is Names.PATH
        assert not re.fullmatch(flag.plain, "inputs.npz")
        assert re.fullmatch(flag.plain, WORD_OR_FILE[option.name])
    else:
        assert flag.names is Names.NOTHING
        assert not flag.plain


@pytest.mark.parametrize("command", sorted(ALL))
def test_a_command_takes_the_flags_that_say_so(command: str) -> None:
    parameters = [parameter.name for parameter in build().commands[command].params]
    said = {name for name, option in OPTIONS.items() if command in option.flag.commands}
    assert said <= {*parameters}
    assert "load" not in parameters
    assert len(parameters) == len(set(parameters))


def test_the_defaults_of_a_command_hold_for_what_is_not_given() -> None:
    seen: list[tuple[str, Namespace]] = []

    @takes_load(RUN, duration="8")
    def command(name: str, *, load: Namespace) -> None:
        seen.append((name, load))

    names = [name for name, option in OPTIONS.items() if RUN in option.flag.commands]
    given = {name: OPTIONS[name].value for name in names}
    command(name="a", **given | {"duration": "8", "slo": ["p99:50", "p50:5"], "url": "h:1"})
    [(name, load)] = seen
    assert (name, load.duration, load.url) == ("a", "8", "h:1")
    assert request_of(vars(load)).objectives.slo == "p99:50,p50:5"


def test_an_unknown_default_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="no_such"):
        takes_load(RUN, no_such="1")


class LocustParser(ArgumentParser):
    """Takes Locust's own keyword, and has its own options, without importing Locust."""

    hidden: set[str]

    def add_argument(self, *names: str, include_in_web_ui: bool = True, **options: object) -> None:  # type: ignore[override]
        action = super().add_argument(*names, **options)  # type: ignore[arg-type]
        if not include_in_web_ui:
            self.hidden.add(action.dest)


def test_locusts_parser_keeps_its_own_options_and_shows_some_flags_in_its_web_ui() -> None:
    LocustParser.hidden = set()
    parser = LocustParser()
    parser.add_argument("--users", dest="num_users", type=int, default=None)
    parser.add_argument("--host", default=None)
    add_arguments(parser, ["ranking", "other"])
    options = parser.parse_args(["--users", "4", "--url", "h:1"])
    assert (options.num_users, options.host, options.model) == (4, "h:1", "ranking")
    assert parser.parse_args(["--concurrency", "3"]).num_users == 3
    taken = [option for option in OPTIONS.values() if option.flag.of_locust]
    assert {o.dest for o in taken} - LocustParser.hidden == {o.dest for o in taken if o.flag.in_web_ui}
    assert {"out", "headers", "client_key", "model_repository"} <= LocustParser.hidden
    assert from_locust(options).load == ClosedLoop(concurrency=4)
    options.request_rate, options.seed = "5", 7
    found = from_locust(options)
    assert (found.load, found.inputs.seed, found.server.url) == (ConstantRate(rate=5), 7, "h:1")


def test_a_command_line_has_what_is_given() -> None:
    request = request_of(
        {"request_rate": "5", "slo": "", "input_data": "a b", "request_log": True, "engine_option": ["a=1", "b"]}
    )
    assert arguments(request) == [
        "--engine-option=a=1",
        "--engine-option=b",
        "--request-rate=5",
        "--input-data=a b",
        "--request-log",
    ]


def test_values_that_come_again_are_joined() -> None:
    parser = ArgumentParser()
    add_arguments(parser, [""], locust=False)
    assert parser.parse_args(["--slo", "p50:5", "--slo", "p99:20"]).slo == "p50:5,p99:20"
