"""Scenarios out of options, traces out of files, and what a run of either says of itself."""

from pathlib import Path

import numpy as np
import pytest

from loadgen.load.scenario import Scenario, same_warmup, scenario_of
from servemark.documents.load import Distribution, Stage, Stages
from servemark.documents.saved_load import load_of
from servemark.errors import OptionError
from servemark.figures.registry import count_of
from servemark.workload import get
from tests.golden.server import GoldenServer
from tests.support.load_config import config
from tests.support.locust_run import Result, accounted, run, server_of, the_result

TINY = ["--model", "ranking_tiny"]


def scenario(*flags: str) -> Scenario:
    return config("ranking_tiny", *flags).scenario


@pytest.mark.parametrize("flags", [("--concurrency", "2"), ("--request-rate", "5"), ("--stages", "10:5")])
def test_a_remedy_names_the_flag_that_made_the_load(flags: tuple[str, str]) -> None:
    assert flags[0] in scenario(*flags).words.lower


def test_more_requests_than_a_schedule_holds_are_refused() -> None:
    with pytest.raises(OptionError) as error:
        scenario("--stages", "1000:1000000")
    assert "--stages for 1030 s is more than 20,000,000 requests" in error.value.what
    assert error.value.fix


def test_stages_make_the_duration_the_windows_and_the_mean_rate() -> None:
    found = scenario("--stages", "2:100,0.5:0,12:50", "--warmup", "1", "--duration", "99")
    assert (found.words.mode, found.duration_s) == ("stages", 14.5)
    assert found.rate == pytest.approx((200 + 600) / 14.5)
    assert found.windows_per_stage == [4, 1, 10]
    edges = found.window_edges_s
    assert edges[:6] == (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)
    assert edges[-1] == 14.5
    assert len(edges) == 16
    arrivals = np.array(found.schedule(0)) / 1e9
    # the warm-up runs at the first stage's rate, and nothing is sent in the pause
    assert 60 < (arrivals < 1).sum() < 140
    assert not ((arrivals >= 3) & (arrivals < 3.5)).any()
    many = scenario("--stages", ",".join(["20:5"] * 11))
    assert many.windows_per_stage == [7] * 11


@pytest.mark.parametrize(("duration", "longest"), [("1", 3), ("15", 15), ("600", 30)])
def test_a_warmup_is_automatic_or_so_many_seconds(duration: str, longest: float) -> None:
    found = scenario("--duration", duration)
    assert (found.auto_warmup, found.warmup_s) == (True, longest)
    assert found.to_dict()["warmup_s"] is None
    same = scenario_of(same_warmup(found.load))
    assert (same.auto_warmup, same.warmup_s, same_warmup(same.load)) == (False, 3, same.load)
    assert scenario("--warmup", "1500ms").warmup_s == 1.5
    with pytest.raises(OptionError, match="--warmup 'automatic' is not a number"):
        scenario("--warmup", "automatic")


@pytest.mark.parametrize("load", [["--request-rate", "100"], ["--stages", "1:0,1:100", "--gamma-cv", "2"]])
def test_the_measured_arrivals_are_the_same_after_any_warmup(load: list[str]) -> None:
    gamma = ["--request-distribution", "gamma"] if "--gamma-cv" in load else []
    whole = {s: scenario(*load, *gamma, "--duration", "2", "--warmup", s) for s in ("0", "1", "auto")}
    measured = whole["0"].schedule(4)
    assert measured is not None
    for found in whole.values():
        arrivals = found.schedule(4)
        assert arrivals is not None
        before = found.warmup_schedule(4)
        np.testing.assert_array_equal(arrivals[len(before) :], measured + int(found.warmup_s * 1e9))
        assert len(before) == pytest.approx(100 * found.warmup_s, abs=100)
        assert not len(before) or not np.array_equal(before[:20], measured[:20])


def test_gamma_is_bursty_by_default() -> None:
    found = scenario("--request-rate", "100", "--request-distribution", "gamma")
    assert (found.distribution, found.cv, found.rate) == (Distribution.GAMMA, 2.0, 100)
    assert found.to_dict()["gamma_cv"] == 2.0
    assert scenario("--request-rate", "100").to_dict()["gamma_cv"] is None
    flags = ["--request-rate", "500", "--request-distribution", "gamma", "--gamma-cv"]
    gaps = [np.diff(np.array(scenario(*flags, cv).schedule(3))) for cv in ("1", "4")]
    spread = [each.std() / each.mean() for each in gaps]
    assert spread == pytest.approx([1, 4], rel=0.15)


def drive(server: GoldenServer, out: Path, *flags: str) -> Result:
    """A short run against the golden server."""
    # No golden outputs of the default repository, unless a test brings some: the last flag counts.
    none = ["--model-repository", str(out / "none")]
    done = run("ranking", *TINY, "--url", server.url, "--out", str(out), *none, *flags)
    assert done.returncode in {0, 2}, done.stderr
    return the_result(out)


def test_a_run_of_stages_sends_each_at_its_rate_and_reports_it(tmp_path: Path) -> None:
    with server_of(get("ranking_tiny"), delay_s=0.005) as server:
        flags = ["--stages", "1:40,0.5:0,1:120", "--request-distribution", "constant", "--warmup", "0.2"]
        result = drive(server, tmp_path, *flags)
        received = len(server.requests())
    assert load_of(result) == Stages(
        stages=(Stage(1.0, 40.0), Stage(0.5, 0.0), Stage(1.0, 120.0)),
        distribution=Distribution.CONSTANT,
        warmup=0.2,
    )
    assert [(s["start_s"], s["scheduled"]) for s in result["stages"]] == [(0.0, 40), (1.0, 0), (1.5, 120)]
    assert [w["start_s"] for w in result["windows"]] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert (
        sum(s["figures"]["latency.mean"]["n"] for s in result["stages"]) == count_of(result, "requests.answered") == 160
    )
    assert result["stages"][2]["figures"]["latency.p90"]["value"] >= 5
    assert result["scenario"]["measured_s"] == 2.5
    assert received == accounted(result) == 1 + 8 + 160, "a first one alone, the warm-up, the stages"
    assert "no stage keeps one rate for 3.5 s or more" in result["verdict"]["skipped"]["steady_state"]
    assert "steady_state" not in {c["name"] for c in result["verdict"]["constraints"]}


def test_a_trace_is_replayed_with_its_samples(tmp_path: Path) -> None:
    """Times and contents as the server's own log has them."""
    times = [0.0, 0.3, 0.3, 0.31, 0.8, 1.1]
    samples = [4, 2, 2, 4, 0, 9]
    trace = tmp_path / "trace.csv"
    trace.write_text("time_s,sample\n" + "".join(f"{t},{s}\n" for t, s in zip(times, samples, strict=True)))
    with server_of(get("ranking_tiny")) as server:
        result = drive(server, tmp_path / "out", "--arrival-trace", str(trace), "--warmup", "0", "--max-in-flight", "1")
        first, *log = server.requests()
    assert first["crc32"] == log[0]["crc32"], "it goes out alone, and again on time"
    assert (result["request"]["load"]["kind"], result["scenario"]["duration_s"]) == ("trace", 2.0)
    assert result["scenario"]["trace"] == {
        "sha256": result["scenario"]["trace"]["sha256"], "arrivals": 6, "samples": True, "first": None,
    }  # fmt: skip
    assert count_of(result, "requests.answered") == len(log) == 6
    # one at a time, so that the order of arrival is that of the trace also where some were sent late
    contents = [entry["crc32"] for entry in log]
    assert [contents.index(content) for content in contents] == [0, 1, 1, 0, 4, 5]
    assert "steady_state" in result["verdict"]["skipped"]
    assert [(w["start_s"], w["count"], w["over_slo"]) for w in result["windows"]] == [(0, 5, None), (1, 1, None)]
