"""A history: series by what was measured and where, changes between commits, and an exit code for a pipeline."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from servemark.errors import ExitCode
from servemark.results import directory
from tests.servemark.views.snapshots import assert_unchanged
from tests.support.command_line import Servemark
from tests.support.documents import validated
from tests.support.measured import evenly, load_result

FLAGS = ("--request-rate", "40", "--duration", "10", "--warmup", "1")
BEFORE = [10.0, 10.2, 9.9, 10.1, 10.05, 9.8, 10.15, 9.95, 10.02, 9.85]
NOISE = [0.0, 0.02, -0.03, 0.01, 0.03, -0.02, 0.01, 0.0, -0.01, 0.02]
STEP = [*BEFORE, 13.0, 13.2, 12.9, 13.1, 12.8, 13.15]
"""p50 in ms; the eleventh commit is slower."""


@pytest.fixture(scope="module")
def template() -> Any:
    return load_result(FLAGS, evenly(40, 11, 0.02))


def write(root: Path, template: Any, values: list[float], *, host: str = "a", **changes: Any) -> None:
    """A result for each value, a commit each."""
    for number, value in enumerate(values):
        result = copy.deepcopy(template) | {"created": f"2026-01-{number + 1:02}T00:00:00+00:00"} | changes
        result["figures"]["latency.p50"]["value"] = value
        result["verdict"] = {**result["verdict"], "valid": changes.get("partial") is None}
        commit = {"git_commit": f"{number:x}".ljust(40, "0"), "git_dirty": False}
        result["environment"] |= {**commit, "hostname": host, "cpu": "a CPU", "cores": 2}
        folder = root / f"{host}{number:02}"
        folder.mkdir(parents=True)
        directory.write(folder, result)


def history(servemark: Servemark, root: Path, *flags: str) -> Any:
    return servemark("history", str(root), "--metric", "latency.p50", *flags)


def test_a_regression_names_its_commits_and_fails_the_pipeline(
    servemark: Servemark, tmp_path: Path, template: Any
) -> None:
    write(tmp_path, template, STEP)
    done = history(servemark, tmp_path, "--fail-on", "regression", "-o", str(tmp_path / "history.html"))
    assert done.code == ExitCode.REGRESSION
    page = (tmp_path / "history.html").read_text()
    assert ">worse +30%</text>" in page
    assert ">9000000</text>" in page  # the axis names commits
    assert history(servemark, tmp_path).code == 0


def test_the_document_keeps_to_its_schema(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    write(tmp_path, template, STEP)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "result.json").write_text("{")
    found = validated(json.loads(history(servemark, tmp_path, "--json").out))
    [series] = found["series"]
    [change] = series["changes"]
    assert (change["before"], change["after"], change["reading"]) == ("a09", "a10", "worse")
    assert change["seen"] in {"a13", "a14", "a15"}
    assert change["evidence"] >= found["run_length"]
    assert change["commits"] == ["9".ljust(40, "0"), "a".ljust(40, "0")]
    assert "broken/result.json" in found["unreadable"][0]


HISTORIES: dict[str, tuple[list[float], tuple[str, ...]]] = {
    "a regression": (STEP, ()),
    "a regression within the threshold": (STEP, ("--threshold", "40")),
    "faster": ([1 / value for value in STEP], ()),
    "a small repair of a large loss is still worse": (
        [level + each for level in (10.0, 13.0, 12.2) for each in NOISE],
        (),
    ),
    "too few results": (STEP[:5], ()),
    "no result has the figure": (STEP[:5], ("--metric", "max_rate")),
    "too few requests for the percentile": (STEP[:3], ("--metric", "latency.p99")),
    "no meter": (STEP[:3], ("--metric", "energy.per_inference")),
    "a change that is almost seen": ([*BEFORE, *[5 * value for value in BEFORE[:3]]], ()),
}


def test_each_history_is_told_as_the_snapshot_has_it(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    parts: list[str] = []
    for number, (name, (values, flags)) in enumerate(HISTORIES.items()):
        write(tmp_path / str(number), template, values)
        done = history(servemark, tmp_path / str(number), "--fail-on", "regression", *flags)
        parts += [f"== {name}: exit code {done.code}", *map(str.rstrip, done.out.splitlines())]
    assert_unchanged("histories", "\n".join(parts), tmp_path)


def test_one_of_many_series_needs_more_evidence(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    write(tmp_path, template, STEP[:15])
    alone = history(servemark, tmp_path, "--fail-on", "regression")
    for host in "bcdefghi":
        write(tmp_path, template, [*BEFORE, *BEFORE[:5]], host=host)
    among = history(servemark, tmp_path, "--fail-on", "regression")
    assert (alone.code, among.code) == (ExitCode.REGRESSION, ExitCode.VALID)
    for number, host in enumerate("bcdefghi"):
        write(tmp_path / "more", template, [value + number for value in STEP[:15]], host=f"{host}2")
    assert history(servemark, tmp_path, "--fail-on", "regression").code == ExitCode.REGRESSION


def test_machines_are_not_mixed(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    write(tmp_path, template, BEFORE, host="a")
    write(tmp_path, template, [20 + value for value in BEFORE], host="b")
    found = json.loads(history(servemark, tmp_path, "--json").out)
    assert [len(series["results"]) for series in found["series"]] == [10, 10]
    assert found["outcome"] == "not shown"
    assert [series["detectable_change"] for series in found["series"]] == [None, None]
    missing = found["series"][0]["missing_results"]
    assert f"2 of 2 cannot show one of any size yet (results missing: {missing})" in history(servemark, tmp_path).out


def test_a_steady_figure_says_which_change_would_have_been_seen(
    servemark: Servemark, tmp_path: Path, template: Any
) -> None:
    write(tmp_path / "steady", template, [*BEFORE, *BEFORE])
    done = history(servemark, tmp_path / "steady", "--fail-on", "regression", "-o", str(tmp_path / "history.html"))
    [series] = json.loads(history(servemark, tmp_path / "steady", "--json").out)["series"]
    least = series["detectable_change"]
    assert (done.code, 0.01 < least < 0.1) == (ExitCode.VALID, True)
    assert f"a lasting one of {100 * least:.2g} % would have been seen" in done.out
    assert "NOT SHOWN" in (tmp_path / "history.html").read_text()
    write(tmp_path / "changed", template, [*BEFORE, *(value * (1 + least) for value in BEFORE)])
    assert history(servemark, tmp_path / "changed", "--fail-on", "regression", "--threshold", "0").code == 5


def test_cores_kept_awake_make_a_series_of_their_own(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    write(tmp_path, template, STEP[:8], host="a")
    awake = copy.deepcopy(template)
    awake["figures"]["generator.cpu_latency"] = {"value": 0, "unit": "us"}
    write(tmp_path / "awake", awake, STEP[:8], host="a")
    found = json.loads(history(servemark, tmp_path, "--json").out)
    assert sorted("cores awake" in series["subject"] for series in found["series"]) == [False, True]


def test_partial_and_invalid_results_are_listed_and_not_used(
    servemark: Servemark, tmp_path: Path, template: Any
) -> None:
    write(tmp_path, template, STEP, partial=True)
    found = json.loads(history(servemark, tmp_path, "--json").out)
    [series] = found["series"]
    assert (len(series["results"]), series["outcome"]) == (16, "undecided")
    assert "(16 more are INVALID or partial: --allow-invalid takes them)" in series["reason"]
    assert history(servemark, tmp_path, "--fail-on", "regression", "--allow-invalid").code == ExitCode.REGRESSION


def test_the_runs_of_a_search_count_as_one(servemark: Servemark, tmp_path: Path, template: Any) -> None:
    found = {"rate": 100.0, "ci95": [90.0, 110.0], "reason": "", "points": []}
    found |= {"confirmed": True, "above": None, "bottleneck": "server", "rates": []}
    figure = {"max_rate.rate": {"value": 100.0, "unit": "requests/s", "ci95": [90.0, 110.0]}}
    write(tmp_path, {**template, "figures": {**template["figures"], **figure}}, [10.0], max_rate=found)
    write(tmp_path / "a00", template, [10.0, 11.0])
    read = json.loads(servemark("history", str(tmp_path), "--metric", "max_rate", "--json").out)
    [series] = read["series"]
    assert "highest rate with None" in series["subject"].split(", ")
    assert "?" not in series["subject"]
    load = {**template["request"]["load"], "distribution": "constant"}
    other = {**template, "request": {**template["request"], "load": load}}
    write(tmp_path, {**other, "figures": {**other["figures"], **figure}}, [10.0], host="b", max_rate=found)
    read = json.loads(servemark("history", str(tmp_path), "--metric", "max_rate", "--json").out)
    assert [", constant arrivals" in each["subject"] for each in read["series"]].count(True) == 1
    assert json.loads(history(servemark, tmp_path, "--json").out)["series"] == []


@pytest.mark.parametrize("flags", [("--metric", "speed"), ("--fail-on", "p99")])
def test_bad_flags_are_refused(servemark: Servemark, tmp_path: Path, flags: tuple[str, str]) -> None:
    assert servemark("history", str(tmp_path), *flags).code == ExitCode.BAD_INPUT
    assert servemark("history", str(tmp_path / "none")).code == ExitCode.BAD_INPUT
