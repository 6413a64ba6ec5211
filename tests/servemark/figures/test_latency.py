"""Distributions and bounds: values, intervals from windows, and reasons."""

import numpy as np
import pytest

from servemark.figures.evidence import Evidence
from servemark.figures.figure import Part
from servemark.figures.latency import LATENCY
from servemark.figures.registry import figures_of, joined
from servemark.figures.value import FigureValue
from servemark.stats.histogram import Histogram
from servemark.stats.order_statistics import Ranks, TooLittle


def histogram_of(durations_ms: np.ndarray[tuple[int], np.dtype[np.float64]], failed: int = 0) -> Histogram:
    histogram = Histogram()
    histogram.record((durations_ms * 1e6).astype(np.int64))
    histogram.failed = failed
    return histogram


def windows_of(count: int = 2000) -> tuple[Histogram, list[Histogram]]:
    rng = np.random.default_rng(6)
    windows = [histogram_of(rng.exponential(1.0, count)) for _ in range(10)]
    whole = Histogram()
    for window in windows:
        whole.merge(window)
    return whole, windows


def ends(found: FigureValue) -> tuple[float, float]:
    low, high = found["ci95"]
    assert low is not None
    assert high is not None
    return low, high


def test_windows_give_an_interval_and_a_bound() -> None:
    whole, windows = windows_of()
    found = figures_of(Evidence(latency=whole, service_time=whole, windows=windows))
    for key in ("p50", "p90", "p95", "p99"):
        value, (low, high) = found[f"latency.{key}"]["value"], ends(found[f"latency.{key}"])
        bound = found[f"tail_bound.{key}"]["value"]
        assert value is not None
        assert bound is not None
        assert low < value < high <= bound
    assert "; an interval needs 70" in found["latency.p99.9"]["reason"]
    assert whole.ranks(99, []) == TooLittle("its windows are not kept")


def test_what_late_sending_moved_in_a_part_is_not_stated_of_the_whole() -> None:
    whole, _ = windows_of()
    own = figures_of(Evidence(latency=whole, service_time=whole))
    late: dict[str, FigureValue] = dict(own)
    late["latency.p99"] = {"value": None, "unit": "ms", "n": 20_000, "reason": "late sending moved it by 3 ms"}
    parts = [Part(figures, {"latency": whole, "service_time": whole}) for figures in (own, late)]
    found = joined(parts)
    assert found["latency.p99"]["value"] is None
    assert "late sending moved it" in found["latency.p99"]["reason"]
    assert found["latency.p50"]["value"] is not None


def test_the_share_of_late_requests_counts_failed_ones_too() -> None:
    whole, _ = windows_of()
    own = figures_of(Evidence(latency=whole, service_time=whole))
    shares = [{"value": 1.0, "unit": "share", "n": 1000}, {"value": 0.0, "unit": "share", "n": 1000}]
    answered = [{"value": 0, "unit": "count"}, {"value": 1000, "unit": "count"}]
    parts = [
        Part({**own, "schedule_delay.late_share": share, "requests.answered": count}, {"latency": whole})  # type: ignore[dict-item]
        for share, count in zip(shares, answered, strict=True)
    ]
    assert joined(parts)["schedule_delay.late_share"]["value"] == 0.5


def test_a_burst_of_failures_in_one_window_leaves_no_interval() -> None:
    whole, windows = windows_of()
    windows[0].failed = whole.failed = 150
    found = whole.ranks(99, windows)
    assert isinstance(found, TooLittle)
    assert found.factor > 1
    assert "ci95" not in LATENCY.values(whole, windows)["latency.p99"]


def test_an_interval_that_ends_among_failed_requests_has_no_upper_end() -> None:
    whole, windows = windows_of()
    for window in windows:
        window.failed = 19
    whole.failed = 190
    assert isinstance(whole.ranks(99, windows), Ranks)
    found = LATENCY.values(whole, windows)["latency.p99"]
    low, high = found["ci95"]
    assert found["value"] is not None
    assert low is not None
    assert low < found["value"]
    assert high is None


def test_an_empty_one_has_a_reason_for_every_figure() -> None:
    found = LATENCY.values(Histogram())
    assert len(found) == 9
    assert {each["reason"] for each in found.values()} == {"no request succeeded"}
    assert {each["n"] for each in found.values()} == {0}


def test_failed_requests_last_longer_than_every_answer() -> None:
    values = LATENCY.values(histogram_of(np.linspace(1, 2, 95), failed=5))
    assert values["latency.p95"]["value"] is None  # needs 200
    assert values["latency.max"]["value"] == 2
    assert values["latency.p90"]["n"] == 100
    late = LATENCY.values(histogram_of(np.linspace(1, 2, 150), failed=50))["latency.p90"]
    assert (late["value"], late["reason"]) == (None, "beyond every answer: 50 of 200 requests failed")


def test_parts_are_merged_and_never_averaged() -> None:
    rng = np.random.default_rng(1)
    histograms = [histogram_of(rng.lognormal(0, 0.3, 9000)), histogram_of(10 * rng.lognormal(0, 0.3, 3000), failed=7)]
    parts = [Part(LATENCY.values(each), {"latency": each}) for each in histograms]
    both, whole = joined(parts), Histogram()
    for each in histograms:
        whole.merge(each)
    once = LATENCY.values(whole)
    for tag, found in once.items():
        assert both[tag]["value"] == pytest.approx(found["value"], rel=1e-9), tag
        assert both[tag]["n"] == found["n"] == (12007 if ".p" in tag else 12000), tag


def test_a_part_without_answers_does_not_count() -> None:
    parts = [Part(LATENCY.values(each), {"latency": each}) for each in (histogram_of(np.full(50, 3.0)), Histogram())]
    found = joined(parts)
    assert (found["latency.mean"]["value"], found["latency.max"]["value"]) == (3, 3)


def late(late_ms: float, *, waited: int = 0) -> Evidence:
    """Evidence of a server that answers within 5 ms, of which one request in 50 was sent late."""
    service = np.linspace(4.0, 5.0, 10_000)
    delays = np.where(np.arange(10_000) % 50 == 0, late_ms, 0.0)
    held = histogram_of(np.full(waited, late_ms)) if waited else Histogram()
    return Evidence(latency=histogram_of(service + delays), service_time=histogram_of(service), waited_delay=held)


def test_a_percentile_that_late_sending_moved_is_withheld_and_no_other() -> None:
    found = figures_of(late(3.0))
    assert found["latency.p99"]["value"] is None
    assert found["latency.p99"]["reason"].startswith("late sending moved it by 2.5")
    assert found["latency.p90"]["value"] is not None
    assert found["service_time.p99"]["value"] is not None


def test_what_late_sending_moved_by_little_is_stated() -> None:
    assert figures_of(late(0.25))["latency.p99"]["value"] is not None  # 0.2 ms and 2 % of 5 ms


def test_requests_that_waited_for_answers_are_the_servers_latency() -> None:
    assert figures_of(late(3.0, waited=200))["latency.p99"]["value"] is not None
