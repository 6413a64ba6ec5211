"""A history: series by what was measured and where, changes between commits, and an exit code for a pipeline."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from servemark.errors import ExitCode
from servemark.results import directory
from tests.support.command_line import Servemark
from tests.support.documents import validated
from tests.support.measured import evenly, load_result

FLAGS = ("--request-rate", "40", "--duration", "10", "--warmup", "1")
STEP = [10.0, 10.2, 9.9, 10.1, 10.0, 9.8, 10.1, 10.0, 13.0, 13.2, 12.9]
"""p50 in ms; the ninth commit is slower."""


@pytest.fixture(scope="module")
def template() -> Any:
    return load_result(FLAGS, evenly(40, 11, 0.02))


def write(root: Path, template: Any, values: list[float], *, host: str = "a", **changes: Any) -> None:
    """A result for each value, a commit each."""
    for number, value in enumerate(values):
        result = copy.deepcopy(template) | {"created": f"2026-01-{number + 1:02}T00:00:00+00:00"} | changes
        result["metrics"]["latency_ms"]["p50"] = value
        result["verdict"] = {**result["verdict"], "valid": changes.get("partial") is None}
        result["environment"] |= {"git_commit": f"{number:x}".ljust(40, "0"), "git_dirty": False, "hostname": host}
        folder = root / f"{host}{number:02}"
        folder.mkdir(parents=True)
        directory.write(folder, result)


def history(servemark: Servemark, root: Path, *flags: str) -> Any:
    return servemark("history", str(root), "--metric", "latency_p50", *flags)


def test_a_regression_names_its_commits_and_fails_the_pipeline(
    servemark: Servemark, tmp_path: Path, template: Any
) -> None:
    write(tmp_path, template, STEP)
    done = history(servemark, tmp_path, "--fail-on", "regression", "-o", str(tmp_path / "history.html"))
    assert done.code == ExitCode.REGRESSION
    last = done.out.splitlines()[-1]
    assert last.startswith("worse: latency_p50 in 1 series; 1 worse")
    assert "worse by the factor 1.30" in last
    assert "between 700000000000 and 800000000000" in last
    page = (tmp_path / "history.html").read_text()
    assert ">worse 1.30</text>" in page
    assert history(servemark, tmp_path).code == 0
    assert history(servemark, tmp_path, "--fail-on", "regression", "--threshold", "40").code == 0


def test_the_document_keeps_to_its_schema(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    write(tmp_path, template, STEP)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "result.json").write_text("{")
    found = validated(json.loads(history(servemark, tmp_path, "--json").out))
    [series] = found["series"]
    [change] = series["changes"]
    assert (change["before"], change["after"], change["reading"]) == ("a07", "a08", "worse")
    assert change["commits"] == ["7".ljust(40, "0"), "8".ljust(40, "0")]
    assert "broken/result.json" in found["unreadable"][0]


def test_what_got_faster_is_no_regression(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    write(tmp_path, template, [1 / value for value in STEP])
    done = history(servemark, tmp_path, "--fail-on", "regression")
    assert done.code == 0
    assert "better by the factor 0.76" in done.out


def test_a_small_repair_of_a_large_loss_is_still_worse(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    noise = [0.0, 0.02, -0.03, 0.01, 0.03, -0.02, 0.01, 0.0, -0.01, 0.02]
    write(tmp_path, template, [level + each for level in (10.0, 13.0, 12.2) for each in noise])
    done = history(servemark, tmp_path, "--fail-on", "regression")
    assert done.code == ExitCode.REGRESSION
    assert "worse than the best before it by the factor 1.22" in done.out


def test_too_few_results_are_undecided(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    write(tmp_path, template, STEP[:5])
    done = history(servemark, tmp_path, "--fail-on", "regression")
    assert done.code == ExitCode.INVALID
    assert "undecided" in done.out
    assert "5 results: at least 8 are needed" in done.out
    nothing = servemark("history", str(tmp_path), "--metric", "max_rate", "--fail-on", "regression")
    assert (nothing.code, "no result below" in nothing.out) == (ExitCode.INVALID, True)


def test_machines_are_not_mixed(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    write(tmp_path, template, STEP[:8], host="a")
    write(tmp_path, template, [20 + value for value in STEP[:8]], host="b")
    found = json.loads(history(servemark, tmp_path, "--json").out)
    assert [len(series["results"]) for series in found["series"]] == [8, 8]
    assert found["outcome"] == "not worse"


def test_cores_kept_awake_make_a_series_of_their_own(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    write(tmp_path, template, STEP[:8], host="a")
    awake = copy.deepcopy(template)
    awake["metrics"]["client"]["cpu_latency_us"] = 0
    write(tmp_path / "awake", awake, STEP[:8], host="a")
    found = json.loads(history(servemark, tmp_path, "--json").out)
    assert sorted("cores awake" in series["subject"] for series in found["series"]) == [False, True]


def test_partial_and_invalid_results_are_listed_and_not_used(
    servemark: Servemark, tmp_path: Path, template: Any
) -> None:
    write(tmp_path, template, STEP, partial=True)
    found = json.loads(history(servemark, tmp_path, "--json").out)
    [series] = found["series"]
    assert (len(series["results"]), series["outcome"]) == (11, "undecided")
    assert "(11 more are INVALID or partial)" in series["reason"]
    assert history(servemark, tmp_path, "--fail-on", "regression", "--allow-invalid").code == ExitCode.REGRESSION


def test_the_runs_of_a_search_count_as_one(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    found = {"rate": 100.0, "ci95": [90.0, 110.0], "reason": "", "points": []}
    write(tmp_path, template, [10.0], max_rate=found)
    write(tmp_path / "a00", template, [10.0, 11.0])
    read = json.loads(servemark("history", str(tmp_path), "--metric", "max_rate", "--json").out)
    assert [series["subject"].split(", ")[4] for series in read["series"]] == ["highest rate with None"]
    assert json.loads(history(servemark, tmp_path, "--json").out)["series"] == []


@pytest.mark.parametrize("flags", [("--metric", "speed"), ("--fail-on", "p99")])
def test_bad_flags_are_refused(servemark: Servemark, tmp_path: Path, flags: tuple[str, str]) -> None:
    assert servemark("history", str(tmp_path), *flags).code == ExitCode.BAD_INPUT
    assert servemark("history", str(tmp_path / "none")).code == ExitCode.BAD_INPUT
