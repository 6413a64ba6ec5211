"""Every locustfile, started as a user starts it, against a golden server with its workload's tensors."""

import json
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import numpy as np
import pytest

from servemark.errors import ExitCode
from servemark.figures.registry import count_of, value_of
from servemark.paths import CHECKOUT, LOCUSTFILES
from servemark.repository.entry import Golden
from servemark.results.verdict import exit_code_of
from servemark.workload import get, workloads
from servemark.workload.registry import WORKLOADS
from tests.support.locust_run import command, golden_entry, run, server_of, smallest, the_result
from tests.support.result_checks import check_counts, check_schema, constraint, counted_result

SHORT = ["--duration", "0.6", "--warmup", "0.1"]
TINY = ["--model", "ranking_tiny"]


def test_no_module_beside_the_locustfiles_hides_another() -> None:
    """Locust puts their folder first on the path, so that a module of that name would be ours for everybody."""
    ours = {path.stem for path in LOCUSTFILES.iterdir() if path.is_dir() or path.suffix == ".py"}
    ours -= {"__init__", "__pycache__"}
    elsewhere = [entry for entry in sys.path if Path(entry or ".").resolve() not in {LOCUSTFILES, CHECKOUT}]
    hidden = {name for name in ours if PathFinder.find_spec(name, elsewhere) or name in sys.stdlib_module_names}
    assert not hidden


ZOO = sorted({workload.locustfile for workload in workloads().values()})
QUICK = {"speech_recognition"}
"""Tensors whose size varies. The files differ by name alone, so that the others run in the slow suite."""
USERS = """
import json, sys
from locust.argument_parser import get_parser
from locust.util.load_locustfile import load_locustfile
users = [[user.models() for user in load_locustfile(path)[0].values()] for path in sys.argv[1:]]
usual = get_parser().parse_args([])
print(json.dumps([users, [usual.web_host, usual.master_bind_host]]))
"""


def test_each_locustfile_has_one_user_of_its_workloads_and_none_listens_beyond_loopback_unless_told_to() -> None:
    """In one other process, because importing Locust patches threads and takes seconds."""
    paths = [str(LOCUSTFILES / f"{name}.py") for name in ZOO]
    done = subprocess.run(
        [sys.executable, "-c", USERS, *paths], capture_output=True, text=True, check=True, timeout=120
    )
    users, hosts = json.loads(done.stdout)
    assert users == [
        [[name for name, workload in workloads().items() if workload.locustfile == locustfile]] for locustfile in ZOO
    ]
    assert hosts == ["127.0.0.1"] * 2


@pytest.mark.parametrize(
    "locustfile",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in ZOO],
)
def test_locustfile_headless(locustfile: str, tmp_path: Path) -> None:
    workload = smallest(locustfile)
    with server_of(workload, delay_s=0.01) as server:
        flags = ["--model", workload.name, "--url", server.url, "--out", str(tmp_path), *SHORT, "--users", "2"]
        line = command(locustfile, *flags, program="locust")
        done = subprocess.run(line, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
        received = server.requests()
    assert done.returncode in {0, 2}, done.stderr
    assert "Result is : " in done.stdout
    result = counted_result(tmp_path, len(received))
    assert (result["workload"], result["partial"]) == (workload.name, False)
    assert value_of(result, "errors.count") == 0
    assert count_of(result, "requests.answered") > 0
    assert {entry["batch"] for entry in received} == {1}
    assert (next(tmp_path.glob("*/histograms.json"))).stat().st_size > 100


def test_a_run_is_valid_where_all_is_well_and_says_so(tmp_path: Path) -> None:
    entry = golden_entry(tmp_path / "models")
    flags = [*TINY, "--duration", "3", "--warmup", "0.3", "--concurrency", "8", "--batch-size", "3", "--slo", "p90:200"]
    flags += ["--model-repository", str(entry.repository)]
    with server_of(get("ranking_tiny"), delay_s=0.03, answers=str(entry.golden)) as server:
        done = run("ranking", *flags, "--url", server.url, "--out", str(tmp_path))
        received = server.requests()
    result = the_result(tmp_path)
    figures = {tag: found["value"] for tag, found in result["figures"].items()}
    # Only what a busy machine does is allowed to go wrong.
    failed = {c["name"] for c in result["verdict"]["constraints"] if not c["ok"]}
    assert failed <= {"other_load", "steady_state", "client_cpu", "generator_pause"}
    assert result["verdict"]["valid"] is (not failed)
    assert done.returncode == result["verdict"]["exit_code"] == exit_code_of(not failed, result["verdict"]["objective"])
    assert f"Result is : {'INVALID' if failed else 'VALID'}" in done.stdout
    check_schema(result)
    check_counts(result, len(received))
    assert figures["outputs.checked"] > 5
    assert (figures["outputs.max_abs_error"], figures["outputs.top1_agreement"]) == (0, 1)
    assert result["batch_size"] == 3
    assert {entry["batch"] for entry in received} == {3}
    assert figures["throughput.inferences"] == pytest.approx(3 * figures["throughput.requests"])
    # How near to these bounds it comes depends on who else uses the machine.
    assert 0 < figures["throughput.requests"] <= 8 / 0.03
    assert figures["latency.p50"] >= 30
    assert figures["generator.max_in_flight"] == 8
    assert figures["server.compute_infer"] == pytest.approx(30, abs=0.01)
    assert figures["server.batch_size"] == 3
    assert {window["errors"] for window in result["windows"]} == {0}


def test_a_closed_loop_goes_on_until_each_connection_could_have_an_answer(tmp_path: Path) -> None:
    """Requests of the warm-up outlast the interval: what was asked for holds none at all."""
    entry = golden_entry(tmp_path / "models")
    with server_of(get("ranking_tiny"), delay_s=0.8, answers=str(entry.golden)) as server:
        flags = [*TINY, "--duration", "0.5", "--warmup", "0.2", "--concurrency", "3", "--url", server.url]
        done = run("ranking", *flags, "--model-repository", str(entry.repository), "--out", str(tmp_path))
        received = server.requests()
    result = counted_result(tmp_path, len(received))
    scenario, windows = result["scenario"], result["windows"]
    figures = {tag: found["value"] for tag, found in result["figures"].items()}
    # 3 from the warm-up that come at about 0.8 s, then 3 at about 1.6 s, and 3 more go out before the window's end
    assert scenario["duration_s"] == 0.5
    assert scenario["measured_s"] > 1.3
    length_s = windows[1]["start_s"]
    assert length_s * len(windows) == pytest.approx(scenario["measured_s"])
    assert length_s % 0.5 == pytest.approx(0)
    assert figures["requests.answered"] >= 3
    assert figures["latency.min"] >= 800
    assert figures["throughput.requests"] * scenario["measured_s"] == pytest.approx(
        sum(window["requests_per_s"] * length_s for window in windows)
    )
    # the four golden samples go out first, and the first of each fifty after them
    assert figures["outputs.checked"] == 5
    assert (done.returncode, figures["errors.count"]) == (2, 0)
    assert {c["name"] for c in result["verdict"]["constraints"] if not c["ok"]} <= {
        "other_load",
        "generator_pause",
        "enough_samples",
        "steady_state",
    }
    assert "raise --duration to about" in constraint(result, "enough_samples")["remedy"]
    assert "0.5 s prolonged to" in done.stdout


@pytest.mark.parametrize(("wrong_value_every", "max_abs_error"), [(1, 1), (0, None)], ids=["another", "nan"])
def test_wrong_values_are_seen_by_the_golden_samples(
    wrong_value_every: int, max_abs_error: int | None, tmp_path: Path
) -> None:
    entry, answers = golden_entry(tmp_path / "models"), golden_entry(tmp_path / "answers")
    golden = entry.read_golden()
    assert golden is not None
    if max_abs_error is None:
        scores = np.full_like(golden.outputs["scores"], np.nan)
        answers.write_golden(Golden(golden.inputs, {**golden.outputs, "scores": scores}))
    with server_of(get("ranking_tiny"), answers=str(answers.golden), wrong_value_every=wrong_value_every) as server:
        flags = ["--url", server.url, "--out", str(tmp_path / "out"), "--model-repository", str(entry.repository)]
        done = run("ranking", *TINY, *flags, *SHORT)
    result = the_result(tmp_path / "out")
    assert (done.returncode, value_of(result, "errors.count")) == (2, 0)
    assert value_of(result, "outputs.max_abs_error") == max_abs_error
    assert ("reason" in result["figures"]["outputs.max_abs_error"]) is (max_abs_error is None)
    assert not constraint(result, "output_agreement")["ok"]
    assert "differs" in constraint(result, "output_agreement")["remedy"]


def test_a_workload_file_that_is_none_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own.py"
    file.write_text("x = ")
    monkeypatch.setenv(WORKLOADS, str(file))
    done = run("ranking", "-H", "http://h:1")
    assert done.returncode == ExitCode.BAD_INPUT
    assert "SyntaxError" in done.stderr
    assert "Traceback" not in done.stderr
