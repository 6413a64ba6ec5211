"""The load's flags: declared once, taken by every command that drives a load, and known to the locustfiles."""

from dataclasses import fields

import pytest

from loadgen.load.load_config import add_arguments
from servemark.cli import build
from servemark.cli._load_flags import ARRIVALS, RANGES, SERVER, LoadFlags, takes_load
from tests.support.load_config import Parser

EVERY = {field.name for field in fields(LoadFlags)}


@pytest.mark.parametrize(
    ("command", "left_out"),
    [
        ("run", set()),
        ("compare", {*RANGES, "model_name"}),
        ("tune", {*SERVER, *ARRIVALS}),
        ("mlperf", {*ARRIVALS, "shared_memory", "duration", "warmup", "model_name", "max_error_share", "request_log"}),
    ],
)
def test_a_command_takes_what_it_does_not_leave_out(command: str, left_out: set[str]) -> None:
    parameters = [parameter.name for parameter in build().commands[command].params]
    assert EVERY & set(parameters) == EVERY - left_out
    assert "load" not in parameters
    assert len(parameters) == len(set(parameters))


def test_the_defaults_of_a_command_hold_for_what_is_not_given_and_for_what_it_does_not_take() -> None:
    seen: list[tuple[str, LoadFlags]] = []

    @takes_load(without=["warmup"], duration="8", warmup="0")
    def command(name: str, *, load: LoadFlags) -> None:
        seen.append((name, load))

    given = {field.name: getattr(LoadFlags, field.name) for field in fields(LoadFlags) if field.name != "warmup"}
    command(name="a", **given | {"duration": "8", "slo": "p99:50"})
    assert seen == [("a", LoadFlags(duration="8", warmup="0", slo="p99:50"))]


def test_an_unknown_default_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="no_such"):
        takes_load(no_such="1")


def test_the_locustfiles_know_every_flag() -> None:
    parser = Parser()
    add_arguments(parser, ["ranking"])
    flags = LoadFlags().for_locust(model="ranking", engine="onnxruntime", precision="fp32")
    known = {action.dest: action.default for action in parser._actions}
    assert set(flags) <= set(known)
    # And what is not given means the same on both sides.
    text = {name: str(value) for name, value in flags.items()}
    assert text == {name: str(known[name]) for name in flags}
