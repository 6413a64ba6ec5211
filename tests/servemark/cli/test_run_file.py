"""A request from a YAML file: what the command line overrides, and where an error says that a field stands."""

from pathlib import Path
from typing import Any

import pytest

from servemark.documents.load import ClosedLoop, ConstantRate, Distribution, MaxRate
from servemark.documents.request import RunRequest
from tests.support.command_line import BAD_INPUT, Servemark

REQUEST = """\
workload: ranking_tiny
server:
  url: http://127.0.0.1:1
load:
  kind: constant-rate
  rate: 1k   # with a unit, as on the command line
  distribution: gamma
  gamma_cv: 3
objectives: {slo: "p50:5,p99:20ms"}
live:
  request_log: true
"""


@pytest.fixture(autouse=True)
def in_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_request_of_a_file_is_that_of_the_run(
    servemark: Servemark, tmp_path: Path, stopped: list[RunRequest]
) -> None:
    (tmp_path / "run.yaml").write_text(REQUEST)
    servemark("run", "--config", "run.yaml")
    [request] = stopped
    assert (request.workload, request.server.url) == ("ranking_tiny", "http://127.0.0.1:1")
    assert request.live.request_log
    assert request.load == ConstantRate(rate=1000, distribution=Distribution.GAMMA, gamma_cv=3)
    assert request.objectives.slo == "p50:5,p99:20"


@pytest.mark.parametrize(
    ("flags", "load"),
    [
        (["--request-rate", "7"], ConstantRate(rate=7, distribution=Distribution.GAMMA, gamma_cv=3)),
        (["--concurrency", "4", "--duration=3"], ClosedLoop(concurrency=4, duration_s=3)),
        (["--max-rate"], MaxRate(distribution=Distribution.GAMMA, gamma_cv=3).at(1.0)),
    ],
)
def test_the_command_line_comes_first(
    flags: list[str], load: Any, servemark: Servemark, tmp_path: Path, stopped: list[RunRequest]
) -> None:
    (tmp_path / "run.yaml").write_text(REQUEST)
    servemark("run", "ncf_tiny", *flags, "--config", "run.yaml")
    [request] = stopped
    assert (request.workload, request.load) == ("ncf_tiny", load)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("workload: nothing", ":1: unknown workload 'nothing'"),
        ("workload: ranking_tiny\ninputs:\n  batch_size: 100000", ":3: --batch-size 100000 is above"),
    ],
)
def test_what_is_wrong_says_in_which_line(text: str, words: str, servemark: Servemark, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(text)
    code, out, err = servemark("run", "--config", "run.yaml")
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith("servemark: run.yaml")
    assert words in err


def test_an_option_of_the_command_line_is_not_looked_for_in_the_file(servemark: Servemark, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("load: {kind: closed-loop, duration_s: 3}")
    code, _, err = servemark("run", "ranking_tiny", "--config", "run.yaml", "--duration", "soon")
    assert code == BAD_INPUT
    assert err.startswith("servemark: --duration 'soon' is not a number")


@pytest.mark.parametrize("command", ["run", "explain"])
def test_the_users_own_files_are_in_the_request_for_a_rerun(
    command: str, servemark: Servemark, tmp_path: Path, stopped: list[RunRequest]
) -> None:
    files = [str(tmp_path / "a.py"), str(tmp_path / "b.py")]
    own = ["--workload-file", "a.py", "--workload-file", "b.py", "--imports-dir"]
    servemark(command, "ranking_tiny", *own, str(tmp_path))
    servemark(command, "ranking_tiny", *own, "none")
    assert [[*request.workload_files] for request in stopped] == [files, files]
    assert [request.imports_dir for request in stopped] == [str(tmp_path), ""]  # a folder that is there
    assert [request.live.explain for request in stopped] == [command == "explain"] * 2
