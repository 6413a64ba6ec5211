"""Windows of an interval, and counts of requests that are due, sent and in flight."""

from dataclasses import asdict

import numpy as np
import pytest

from loadgen.driver.connections import MS
from loadgen.measurement.windows import Interval, Pauses, Traffic, scheduled_by
from servemark.stats.trend import FEWEST

S = 1000 * MS


def test_windows_of_stages_have_their_own_lengths() -> None:
    interval = Interval(100, 200, 3, (100, 120, 130, 200))
    times = np.array([100, 119, 120, 129, 130, 199])
    assert interval.window_of(times).tolist() == [0, 0, 1, 1, 2, 2]
    assert interval.window(1) == (20 / 1e9, 10 / 1e9)


@pytest.mark.parametrize("windows", range(1, 11))
def test_a_prolonged_interval_never_has_fewer_windows_than_steadiness_needs(windows: int) -> None:
    interval = Interval(0, windows * S, windows)
    for _ in range(100):
        longer = interval.prolonged
        assert longer.windows > min(interval.windows, FEWEST)
        assert (longer.end - interval.end, longer.window_ns / S) == (longer.window_ns, round(longer.window_ns / S))
        interval = longer


@pytest.mark.parametrize(("now_ms", "due"), [(-2000, 0), (-1, 0), (0, 0), (1, 1), (101, 2), (950, 10), (5000, 10)])
def test_what_is_due_counts_from_the_end_of_the_warm_up_to_the_end_of_the_interval(now_ms: int, due: int) -> None:
    schedule, interval = np.arange(0, 2500, 100) * MS, Interval(7 * S, 8 * S, 1)
    assert scheduled_by(7 * S + now_ms * MS, schedule, 1.0, interval) == due


def test_workers_are_added_up() -> None:
    parts = [asdict(Traffic(4, 3, 2, 1)), asdict(Traffic(40, 30, 20, 10))]
    assert Traffic.of_workers(parts, None) == Traffic(44, 33, 22, 11)
    assert Traffic.of_workers(parts, 50).scheduled == 50


@pytest.mark.parametrize(
    ("ticks", "longest_ms"),
    [
        ([(at, at + 1) for at in range(0, 5000, 6)], 1),
        ([(0, 1), (206, 207)], 200),  # stopped between ticks
        ([(0, 1), (6, 506), (1006, 1007)], 500),  # in a tick: the rest after it is no second pause
        ([(-3000, -2999), (-1000, -999)], 0),
        ([(-3000, -2999), (300, 301)], 300),
        ([(9000, 9001), (9900, 9901), (13_000, 13_001)], 894),
    ],
)
def test_a_pause_is_what_a_tick_is_late_or_takes_inside_the_interval(
    ticks: list[tuple[int, int]], longest_ms: float
) -> None:
    """Ticks by their beginning and their end in ms from the interval's start; it lasts 10 s."""
    interval, pauses = Interval(10_000 * MS, 20_000 * MS, 10), Pauses()
    for begun, ended in ticks:
        pauses.begin(interval.start + begun * MS, interval)
        pauses.end(interval.start + ended * MS, interval)
    assert pauses.longest_ns / MS == longest_ms
