import threading
import time

import pytest

from servemark.telemetry.os_threads import PeriodicThread, PeriodPlan


def test_beats_lie_on_a_grid() -> None:
    pace = PeriodPlan(0.1, 100.0)
    assert pace.next_s(100.0, 100.02, 0.0005) == pytest.approx(100.1)
    assert pace.next_s(100.13, 100.14, 0.0005) == pytest.approx(100.2)  # a late one does not move the others
    assert (pace.cost.beats, pace.cost.skipped, pace.cost.cpu_s) == (2, 0, 0.001)
    assert pace.cost.longest_s == pytest.approx(0.02)


def test_beats_that_are_due_during_another_are_left_out() -> None:
    pace = PeriodPlan(0.1, 100.0)
    assert pace.next_s(100.0, 100.35, 0.0005) == pytest.approx(100.4)
    assert pace.cost.skipped == 3
    assert pace.next_s(100.4, 100.41, 0.0005) == pytest.approx(100.5)
    assert pace.cost.skipped == 3


def test_a_beat_that_takes_much_of_the_cpu_comes_less_often() -> None:
    pace = PeriodPlan(0.1, 100.0, max_share=0.02)
    times = [100.0]
    for _ in range(10):
        times.append(pace.next_s(times[-1], times[-1] + 0.011, 0.011))
    assert pace.cost.cpu_s / (times[-1] - times[0]) <= 0.02
    assert pace.cost.skipped == 50


def test_a_beat_goes_on_until_it_is_stopped() -> None:
    threads: list[int] = []
    third = threading.Event()

    def act() -> None:
        threads.append(threading.get_ident())
        if len(threads) == 3:
            third.set()

    beat = PeriodicThread(act, 0.001)
    assert third.wait(30)
    beat.stop()
    assert threading.get_ident() not in threads
    assert len(set(threads)) == 1
    assert beat.cost.beats >= 2
    deadline = time.monotonic() + 30
    while True:  # the one that went on may still be counted
        seen = len(threads)
        time.sleep(0.05)
        if len(threads) == seen:
            break
        assert time.monotonic() < deadline
