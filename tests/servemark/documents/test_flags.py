"""The options that fields make: what they name, and what Locust's parser makes of them."""

from argparse import ArgumentParser
from typing import Annotated, Any, Literal

import pytest

from servemark.documents.fields import File, Host, Names, Program, Word, names_of
from servemark.documents.flags import OPTIONS, Option, from_locust, locust_arguments, request_of
from servemark.documents.load import ClosedLoop, ConstantRate
from tests.support.load_config import arguments

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
def test_an_option_names_what_its_metavar_shows(option: Option) -> None:
    metavar = option.metavar
    if metavar in KINDS:
        assert option.names in KINDS[metavar]
    elif option.name in WORD_OR_FILE:
        assert option.names is Names.PATH
        assert option.asked("inputs.npz")
        assert not option.asked(WORD_OR_FILE[option.name])
    else:
        assert option.names is Names.NOTHING
        assert not option.asked("anything")


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (str, Names.PROGRAM),
        (str | None, Names.PROGRAM),
        (dict[Word, str], Names.PROGRAM),
        (Annotated[str, "said nothing"], Names.PROGRAM),
        (Word, Names.NOTHING),
        (tuple[Host, ...], Names.HOST),
        (Annotated[File, "said"] | None, Names.PATH),
        (tuple[Program, ...], Names.PROGRAM),
        (int | None, Names.NOTHING),
        (Literal["a", "b"], Names.NOTHING),
    ],
)
def test_a_text_of_which_nothing_is_said_may_name_a_program(kind: Any, names: Names) -> None:
    assert names_of(kind)[0] is names


class LocustParser(ArgumentParser):
    """Takes Locust's own keyword, and has its own options, without importing Locust."""

    hidden: set[str] = set()  # noqa: RUF012 - of one parser

    def add_argument(self, *names: str, include_in_web_ui: bool = True, **options: object) -> None:  # type: ignore[override]
        action = super().add_argument(*names, **options)  # type: ignore[arg-type]
        if not include_in_web_ui:
            self.hidden.add(action.dest)


def test_locusts_parser_keeps_its_own_options_and_shows_some_flags_in_its_web_ui() -> None:
    parser = LocustParser()
    parser.add_argument("--users", dest="num_users", type=int, default=None)
    parser.add_argument("--host", default=None)
    for option, settings in locust_arguments(["ranking", "other"]):
        parser.add_argument(option.spelled, **settings)
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
    parser = LocustParser()
    for option, settings in locust_arguments([]):
        parser.add_argument(option.spelled, **settings)
    assert parser.parse_args(["--slo", "p50:5", "--slo", "p99:20"]).slo == "p50:5,p99:20"
