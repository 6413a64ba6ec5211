"""Windows of an interval, and counts of requests that are due, sent and in flight."""

from dataclasses import asdict

import numpy as np
import pytest

from loadgen.driver.connections import MS
from loadgen.measurement.windows import Interval, Traffic, scheduled_by
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
