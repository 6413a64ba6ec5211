"""A run's options in a YAML file: what is read of it, what it says where a line is wrong, and what overrides it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from servemark.cli import build, run
from servemark.cli._run_file import RunFile, is_switch, parameters, written
from servemark.errors import OptionError
from tests.support.command_line import BAD_INPUT, Servemark

KNOWN = parameters(build().commands["run"])
OPTIONS = """\
workload: ranking_tiny
url: http://127.0.0.1:1
request-rate: 1k   # with a unit, as on the command line
slo: [p50:5, "p99:20ms"]
streaming: false
request-log: true
"""


@pytest.fixture(autouse=True)
def in_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The loads that runs would make."""
    found: list[Any] = []

    def stop(load: Any, **more: str) -> None:
        found.append((load, more))
        raise OptionError("not run")

    monkeypatch.setattr(run, "resolve", stop)
    return found


def test_every_option_of_a_run_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    values: dict[str, Any] = {name: True if is_switch(p) else "x" for name, p in KNOWN.items()}
    values |= {name: ["a", "b"] for name, parameter in KNOWN.items() if getattr(parameter, "multiple", False)}
    file.write_text(written(values))
    assert RunFile.read(file, KNOWN).values == values
    assert {
        "workload",
        "request-rate",
        "engine",
        "device",
        "option",
        "in-process",
        "json",
        "workloads",
    } <= values.keys()


def test_the_options_of_a_file_are_those_of_the_run(servemark: Servemark, tmp_path: Path, resolved: list[Any]) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(OPTIONS)
    servemark("run", "--config", str(file))
    [(load, more)] = resolved
    assert more == {"model": "ranking_tiny"}
    assert (load.host, load.request_rate, load.slo) == ("http://127.0.0.1:1", "1k", "p50:5,p99:20ms")
    assert (load.streaming, load.request_log, load.duration) == (False, True, "15")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["ncf_tiny", "--slo", "p90:1"], {"model": "ncf_tiny", "slo": "p90:1", "request_rate": "1k"}),
        (["--concurrency", "4", "--duration=3"], {"num_users": "4", "request_rate": "", "duration": "3"}),
        (["--max-rate"], {"request_rate": ""}),
    ],
)
def test_the_command_line_comes_first(
    flags: list[str], expected: dict[str, str], servemark: Servemark, tmp_path: Path, resolved: list[Any]
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(OPTIONS)
    servemark("run", *flags, "--config", str(file))
    [(load, more)] = resolved
    found = {**vars(load), **more}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("request_rate: 5", ":1: 'request_rate' is no option of a run\n  fix: did you mean request-rate?"),
        ("duration: 3\nrequest-rat: 5", ":2: 'request-rat' is no option of a run\n  fix: did you mean request-rate?"),
        ("quux: 5", "'quux' is no option of a run\n  fix: servemark run --help lists them"),
        ("duration: 3\n\nduration: 4", ":3: duration stands in line 1 already"),
        ("duration:", ":1: duration has no value"),
        ("json: perhaps", ":1: json: 'perhaps' is neither true nor false"),
        ("duration: [1, 2]", ":1: duration is no single value"),
        ("slo: [p99:3, {a: b}]", ":1: slo[1] is no single value"),
        ("? [a]\n: 1", "'a key that is no word' is no option"),
        ("- duration", "holds no options"),
        ("", "holds no options"),
        ("duration: 3\nseed: 'x", ":2: found unexpected end of stream"),
        ("a: *b", ":1: found undefined alias"),
    ],
)
def test_a_line_that_is_wrong_is_named(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(OptionError) as raised:
        RunFile.read(file, KNOWN)
    assert str(raised.value).startswith(str(file))
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("workload: ranking_tiny\n\nduration: soon", ":3: --duration 'soon' is not a number"),
        ("workload: ranking_tiny\ninstances: 0", ":2: --instances 0 must be at least 1"),
        ("workload: nothing", ":1: unknown workload 'nothing'"),
        ("workload: ranking_tiny\nrequest-rate: 5\nstages: 1:5", ":2: --request-rate and --stages exclude each other"),
    ],
)
def test_what_the_options_find_wrong_says_in_which_line(
    text: str, words: str, servemark: Servemark, tmp_path: Path
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    code, out, err = servemark("run", "--config", str(file))
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith(f"servemark: {file}")
    assert words in err


def test_an_option_of_the_command_line_is_not_looked_for_in_the_file(servemark: Servemark, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("duration: 3")
    code, _, err = servemark("run", "ranking_tiny", "--config", str(file), "--duration", "soon")
    assert code == BAD_INPUT
    assert err.startswith("servemark: --duration 'soon' is not a number")


def test_no_file(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\x00")
    for name, words in (("none", "No such file"), ("bytes", "cannot be read"), (".", "Is a directory")):
        with pytest.raises(OptionError, match=words):
            RunFile.read(tmp_path / name, KNOWN)


@settings(max_examples=40)
@given(st.lists(st.text(min_size=1).filter(lambda text: "\r" not in text), min_size=1))
def test_what_is_written_is_read_again(texts: list[str]) -> None:
    tree = yaml.compose(written({"slo": texts, "url": texts[0]}), Loader=yaml.SafeLoader)
    found = {key.value: value.value for key, value in tree.value}
    assert [node.value for node in found["slo"]] == texts
    assert found["url"] == texts[0]
