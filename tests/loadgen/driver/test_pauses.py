"""Pauses of the event loop, by a clock that the test sets."""

import pytest

from loadgen.driver.event_loop import Pauses
from loadgen.measurement.windows import Interval

MS, S = 1_000_000, 1_000_000_000
INTERVAL = Interval(10 * S, 20 * S, 10)


def longest_ms(*ticks: tuple[int, int]) -> float:
    """Ticks by their beginning and their end in ms from the interval's start."""
    pauses = Pauses()
    for begun, ended in ticks:
        pauses.begin(INTERVAL.start + begun * MS, INTERVAL)
        pauses.end(INTERVAL.start + ended * MS, INTERVAL)
    return pauses.longest_ns / MS


def test_ticks_in_time_are_no_pause() -> None:
    assert longest_ms(*((at, at + 1) for at in range(0, 5000, 6))) == 1


@pytest.mark.parametrize("pause_ms", [200, 1000])
def test_a_process_that_is_stopped_between_ticks(pause_ms: int) -> None:
    assert longest_ms((0, 1), (6 + pause_ms, 7 + pause_ms)) == pause_ms


def test_a_process_that_is_stopped_in_a_tick() -> None:
    assert longest_ms((0, 1), (6, 506), (1006, 1007)) == 500, "the rest after it is no second pause"


def test_only_what_lies_in_the_interval_counts() -> None:
    assert longest_ms((-3000, -2999), (-1000, -999)) == 0
    assert longest_ms((-3000, -2999), (300, 301)) == 300
    assert longest_ms((9000, 9001), (9900, 9901), (13_000, 13_001)) == 894
