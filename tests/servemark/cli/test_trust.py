"""Attacks by a file of somebody else's: what it names is neither run, opened nor asked before a yes."""

import io
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from servemark.cli import _command, build
from servemark.documents.fields import Names
from servemark.documents.files import text_of
from servemark.documents.flags import OPTIONS, Option, request_of
from servemark.documents.request import RunRequest
from servemark.results import directory
from servemark.workload import get
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.locust_run import server_of
from tests.support.measured import evenly, load_result

RUN: Any = build().commands["run"]
NAMING = {n: o for n, o in OPTIONS.items() if o.names is not Names.NOTHING}
VALUES: dict[str, dict[str, Any]] = {
    "metrics_port": {"metrics_port": "9999"},
    "endpoint_type": {"endpoint_type": "/somewhere", "url": "http://h:1"},
    "at": {"at": ["1:true"]},
    "scrape": {"scrape": ["node=http://h:1/metrics"]},
}
"""Options that take no path, or need another one -> options that name something of theirs."""


def result_with(folder: Path, **options: Any) -> Path:
    """A result whose options somebody else has written."""
    result = load_result(("--request-rate", "40"), evenly(40, 15, 0.02))
    named = {"model": "ranking_tiny", "duration": "0.5", "warmup": "0.1"} | options
    request = request_of({name.replace("-", "_"): value for name, value in named.items()})
    directory.write(folder, {**result, "request": msgspec.to_builtins(request)})
    return folder


def test_a_run_takes_every_option_of_a_request() -> None:
    assert {*OPTIONS} <= {*RUN.options}


@pytest.mark.parametrize("option", NAMING.values(), ids=NAMING)
def test_what_a_result_names_waits_for_a_yes(
    option: Option, servemark: Servemark, tmp_path: Path, stopped: list[RunRequest]
) -> None:
    value = ["/somewhere"] if option.kind.many else "/somewhere"
    assert not option.switch
    result = result_with(tmp_path, **VALUES.get(option.name, {option.name: value}))
    code, out, err = servemark("rerun", str(result))
    assert (code, out, stopped) == (BAD_INPUT, "", [])
    assert f"{option.names}: {option.spelled} " in err
    assert "add --trust" in err
    _, _, err = servemark("rerun", str(result), "--trust")
    assert "add --trust" not in err


def test_what_names_nothing_needs_no_yes(servemark: Servemark, tmp_path: Path, stopped: list[RunRequest]) -> None:
    plain = {"input-data": "random", "engine_option": ["compile=true"], "device": "cuda:0", "slo": "p90:50"}
    servemark("rerun", str(result_with(tmp_path, **plain, engine="pytorch")))
    assert len(stopped) == 1


def test_a_program_does_not_run(servemark: Servemark, tmp_path: Path) -> None:
    """The meter of a result runs with --trust, which shows that the attack works, and not without."""
    ran = tmp_path / "ran"
    with server_of(get("ranking_tiny")) as server:
        command = f"sh -c 'touch {ran}; while :; do echo 5; sleep 0.1; done'"
        result = result_with(tmp_path, **{"power-command": command, "url": server.url, "request_rate": "20"})
        code, _, err = servemark("rerun", str(result), "--out", str(tmp_path / "out"))
        assert (code, ran.exists(), server.requests()) == (BAD_INPUT, False, [])
        assert "program: --power-command \"sh -c 'touch" in err
        assert f"host: --url '{server.url}'" in err
        servemark("rerun", str(result), "--out", str(tmp_path / "out"), "--trust")
        assert ran.exists()
        assert server.requests()


def test_a_workload_file_does_not_run(servemark: Servemark, tmp_path: Path) -> None:
    ran, code = tmp_path / "ran", tmp_path / "evil.py"
    code.write_text(f"open({str(ran)!r}, 'w')\nWORKLOAD = 5\n")
    result = result_with(tmp_path, model="evil", workload_file=[str(code)])
    servemark("rerun", str(result))
    assert not ran.exists()
    servemark("rerun", str(result), "--trust")
    assert ran.exists()


def test_a_local_file_is_not_sent(servemark: Servemark, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password: 1234\n")
    with server_of(get("ranking_tiny")) as server:
        result = result_with(tmp_path, headers=str(secret), url=server.url)
        code, _, err = servemark("rerun", str(result))
        assert (code, server.requests()) == (BAD_INPUT, [])
    assert "1234" not in err


def test_an_environment_of_triton_is_a_program(servemark: Servemark, tmp_path: Path, stopped: list[RunRequest]) -> None:
    result = result_with(tmp_path, engine_option=["compile=true", "EXECUTION_ENV_PATH=/tmp/env"])
    _, _, err = servemark("rerun", str(result))
    assert "program: --engine-option 'compile=true', 'EXECUTION_ENV_PATH=/tmp/env'" in err
    assert not stopped


def test_an_engine_leads_to_no_other_folder(servemark: Servemark, tmp_path: Path) -> None:
    result = result_with(tmp_path, engine="onnxruntime/../../../tmp/model")
    code, _, err = servemark("rerun", str(result))
    assert code == BAD_INPUT
    assert "'onnxruntime/../../../tmp/model' is not a name for an engine" in err


def test_what_the_command_line_gives_is_not_asked_for(
    servemark: Servemark, tmp_path: Path, stopped: list[RunRequest]
) -> None:
    result = result_with(tmp_path, url="http://theirs:1", arrival_trace="theirs.csv")
    servemark("rerun", str(result), "--url", "http://mine:1", "--request-rate", "5")
    assert [request.server.url for request in stopped] == ["http://mine:1"]


@pytest.mark.parametrize(("answer", "made"), [("y\n", 1), ("\n", 0), ("n\n", 0)])
def test_a_terminal_is_asked(
    answer: str,
    made: int,
    servemark: Servemark,
    tmp_path: Path,
    stopped: list[RunRequest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_command, "_at_a_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    code, _, err = servemark("rerun", str(result_with(tmp_path, url="http://theirs:1\x1b[2J")))
    assert code == BAD_INPUT
    assert len(stopped) == made
    assert "host: --url 'http://theirs:1\\x1b[2J'" in err


def test_the_options_as_a_file_are_shown_with_what_they_name(servemark: Servemark, tmp_path: Path) -> None:
    code, out, err = servemark("rerun", str(result_with(tmp_path, url="http://theirs:1")), "--print")
    assert code == 0
    assert "url: http://theirs:1\n" in out
    assert err == "look at these before a run: url\n"


@pytest.mark.parametrize("value", [5, None, {"a": 1}, [5], ["a", None], True, "\0", "\ud800"])
@pytest.mark.parametrize("name", ["server.url", "inputs.input_data", "live.out"])
def test_a_value_of_another_kind_is_refused(
    name: str, value: Any, servemark: Servemark, tmp_path: Path, stopped: list[RunRequest]
) -> None:
    document = directory.read(result_with(tmp_path))
    group, _, field = name.partition(".")
    document["request"][group][field] = value
    (tmp_path / "result.json").write_text(json.dumps(document))
    code, _, err = servemark("rerun", str(tmp_path), "--trust")
    assert (code, stopped) == (BAD_INPUT, [])
    # half of a surrogate pair is not JSON, and refused before its field is known
    assert name in err or "is not plain text" in err or "JSON is malformed" in err


def test_a_config_is_taken_without_a_yes_where_it_is_ones_own(
    servemark: Servemark, tmp_path: Path, stopped: list[RunRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One's own lies in the working directory, and others cannot change it; none trusts itself."""
    own, elsewhere = tmp_path / "own" / "run.yaml", tmp_path / "run.yaml"
    own.parent.mkdir()
    monkeypatch.chdir(own.parent)
    own.write_text(text_of(request_of({"model": "ranking_tiny", "url": "http://mine:1", "power_command": "meter"})))
    servemark("run", "--config", str(own))
    assert [request.live.power_command for request in stopped] == ["meter"]
    own.chmod(0o666)
    servemark("run", "--config", str(own))
    own.rename(elsewhere).chmod(0o600)
    own.symlink_to(elsewhere)
    for path in (elsewhere, own):
        code, _, err = servemark("run", "--config", str(path))
        assert code == BAD_INPUT
        assert "program: --power-command 'meter'" in err
    assert len(stopped) == 1
    servemark("run", "--config", str(elsewhere), "--trust")
    assert len(stopped) == 2
    elsewhere.replace(own)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    servemark("run", "--config", str(own))
    assert len(stopped) == 2
    own.write_text("trust: true")
    assert "trust is not a field of a request" in servemark("run", "--config", str(own)).err


def test_a_declaration_counts_for_each_value() -> None:
    option = OPTIONS["engine_option"]
    assert option.asked(("compile=true", "a=/x"))
    assert option.asked(["a=true\n"])
    assert not option.asked(["a=true", "b=4", "c"])
