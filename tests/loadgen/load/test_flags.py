"""The table of flags: what the parsers and the commands make of it."""

from argparse import ArgumentParser, Namespace

import pytest

from loadgen.load.flags import FLAGS, add_arguments, arguments, names_of
from servemark.cli import build
from servemark.cli._load_flags import takes_load

EVERY = {flag.name for flag in FLAGS if not flag.of_locustfiles}
SERVER, ARRIVALS, DECODING = (set(names_of(group)) for group in ("server", "arrivals", "decoding"))
UNTAKEN = {
    "shared_memory",
    "duration",
    "warmup",
    "model_name",
    "max_error_share",
    "request_log",
    "power_command",
    "power_boundary",
    "sampling_rate",
    "cpu_latency_qos",
    "priority",
}


@pytest.mark.parametrize(
    ("command", "left_out"),
    [
        ("run", set()),
        ("compare", {"model_name", "engine"}),
        ("tune", {*SERVER, *ARRIVALS, *DECODING, "quality"}),
        ("mlperf", {*ARRIVALS, *UNTAKEN, "quality"}),
    ],
)
def test_a_command_takes_what_it_does_not_leave_out(command: str, left_out: set[str]) -> None:
    parameters = [parameter.name for parameter in build().commands[command].params]
    assert EVERY & set(parameters) == EVERY - left_out
    assert "load" not in parameters
    assert len(parameters) == len(set(parameters))


def test_the_defaults_of_a_command_hold_for_what_is_not_given_and_for_what_it_does_not_take() -> None:
    seen: list[tuple[str, Namespace]] = []

    @takes_load(without=["warmup"], duration="8", warmup="0")
    def command(name: str, *, load: Namespace) -> None:
        seen.append((name, load))

    given = {flag.name: flag.value for flag in FLAGS if flag.name in EVERY - {"warmup", "engine", "precision"}}
    command(name="a", **given | {"duration": "8", "slo": ["p99:50", "p50:5"], "url": "h:1"})
    usual = {flag.dest: flag.value for flag in FLAGS}
    assert seen == [("a", Namespace(**usual | {"duration": "8", "warmup": "0", "slo": "p99:50,p50:5", "host": "h:1"}))]


def test_an_unknown_default_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="no_such"):
        takes_load(no_such="1")


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
    assert {flag.dest for flag in FLAGS} - LocustParser.hidden == {flag.dest for flag in FLAGS if flag.in_web_ui}
    assert {"out", "headers", "client_key", "model_repository"} <= LocustParser.hidden


def test_a_command_line_has_what_is_given() -> None:
    texts = {"request_rate": "5", "slo": "", "input_data": "a b"}
    found = arguments(texts | {"streaming": True, "request_log": False})
    assert found == ["--request-rate=5", "--input-data=a b", "--streaming"]
