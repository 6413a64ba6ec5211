"""Distributions and bounds: values, intervals from windows, and reasons."""

from typing import Any

import numpy as np
import pytest

from servemark.figures.evidence import Evidence
from servemark.figures.figure import Part
from servemark.figures.latency import LATENCY
from servemark.figures.registry import figures_of, joined, number
from servemark.figures.value import FigureValue
from servemark.stats.histogram import Histogram
from servemark.stats.percentiles import Ranks, TooLittle
from tests.support.results import histogram_of


def failing(histogram: Histogram, failed: int) -> Histogram:
    """Let requests have failed beside those that it has."""
    histogram.failed = failed
    return histogram


def windows_of(count: int = 2000) -> tuple[Histogram, list[Histogram]]:
    rng = np.random.default_rng(6)
    windows = [histogram_of(rng.exponential(1.0, count)) for _ in range(10)]
    whole = Histogram()
    for window in windows:
        whole.merge(window)
    return whole, windows


def test_windows_give_an_interval_and_a_bound() -> None:
    whole, windows = windows_of()
    found = figures_of(Evidence(latency=whole, service_time=whole, windows=windows))
    for key in ("p50", "p90", "p95", "p99"):
        ends: list[Any] = found[f"latency.{key}"]["ci95"]
        value, bound = (number(found, f"{tag}.{key}") or 0.0 for tag in ("latency", "tail_bound"))
        assert 0 < ends[0] < value < ends[1] <= bound
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
    def part(late_share: float, answered: int) -> Part:
        share: FigureValue = {"value": late_share, "unit": "share", "n": 1000}
        return Part({"schedule_delay.late_share": share, "requests.answered": {"value": answered, "unit": ""}}, {})

    assert joined([part(1.0, 0), part(0.0, 1000)])["schedule_delay.late_share"]["value"] == 0.5


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
    values = LATENCY.values(failing(histogram_of(np.linspace(1, 2, 95)), 5))
    assert values["latency.p95"]["value"] is None  # needs 200
    assert values["latency.max"]["value"] == 2
    assert values["latency.p90"]["n"] == 100
    late = LATENCY.values(failing(histogram_of(np.linspace(1, 2, 150)), 50))["latency.p90"]
    assert (late["value"], late["reason"]) == (None, "beyond every answer: 50 of 200 requests failed")


def test_parts_are_merged_and_never_averaged() -> None:
    rng = np.random.default_rng(1)
    slow = failing(histogram_of(10 * rng.lognormal(0, 0.3, 3000)), 7)
    histograms = [histogram_of(rng.lognormal(0, 0.3, 9000)), slow]
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


@pytest.mark.parametrize(
    ("late_ms", "waited", "stated"),
    [
        (3.0, 0, False),
        (0.25, 0, True),  # 0.2 ms and 2 % of 5 ms
        (3.0, 200, True),  # requests that waited for answers: the server's latency
    ],
)
def test_a_percentile_that_late_sending_moved_is_withheld_and_no_other(
    late_ms: float, waited: int, stated: bool
) -> None:
    found = figures_of(late(late_ms, waited=waited))
    assert (found["latency.p99"]["value"] is not None) is stated
    assert stated or found["latency.p99"]["reason"].startswith("late sending moved it by 2.5")
    assert found["latency.p90"]["value"] is not None
    assert found["service_time.p99"]["value"] is not None
