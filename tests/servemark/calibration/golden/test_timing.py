"""The golden server's clock and its rules: stalls, delays and their distribution. tests/golden has it as a process."""

import numpy as np
import pytest

from servemark.calibration.golden.behaviour import Behaviour
from servemark.calibration.golden.connection import Loop


class Clock:
    """A monotonic clock that select(2) moves on by the time it is asked for, and each look by a microsecond."""

    def __init__(self) -> None:
        self.now_ns = 10**9
        self.asked_s: list[float] = []

    def look(self) -> int:
        self.now_ns += 1000
        return self.now_ns

    def wait(self, _reading: object, _writing: object, _failing: object, timeout_s: float) -> None:
        self.asked_s.append(timeout_s)
        self.now_ns += round(timeout_s * 1e9)


def test_timers_are_finer_than_a_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system is asked to wait as long as it was meant to, never rounded up."""
    clock = Clock()
    monkeypatch.setattr("servemark.calibration.golden.connection.select.select", clock.wait)
    monkeypatch.setattr("servemark.calibration.golden.connection.time.monotonic_ns", clock.look)
    loop, called = Loop(), list[int]()
    due_ns = clock.look() + 300_000
    loop.call_at(due_ns, lambda: called.append(clock.look()))
    while not called:
        loop.turn()
    assert due_ns <= called[0] <= due_ns + 10_000
    assert clock.asked_s == [pytest.approx(0.0003, abs=2e-6)]


@pytest.mark.parametrize(
    ("behaviour", "percentiles_ms"),
    [
        (Behaviour(delay_s=0.01, delays="exponential"), {50: 6.93, 90: 23.03, 99: 46.05}),
        (Behaviour(delay_s=0.002, long_share=0.1, long_s=0.05), {50: 2.0, 89: 2.0, 91: 50.0}),
    ],
)
def test_delays_have_their_distribution_from_a_few_hundred_requests_on(
    behaviour: Behaviour, percentiles_ms: dict[int, float]
) -> None:
    delays = [behaviour.delay_ns(number) / 1e6 for number in range(1, 801)]
    for percentile, expected in percentiles_ms.items():
        assert np.percentile(delays, percentile) == pytest.approx(expected, rel=0.04)


def test_stall_rule() -> None:
    behaviour = Behaviour(stall_s=0.2, stall_every_s=1.0, stall_phase_s=0.5)
    second = 10**9
    for arrival_s, start_s in [(0.0, 0.0), (0.49, 0.49), (0.5, 0.7), (0.69, 0.7), (0.7, 0.7), (2.6, 2.7), (2.71, 2.71)]:
        start_ns = behaviour.after_stall_ns(round((7 + arrival_s) * second), 7 * second)
        assert start_ns == round((7 + start_s) * second), arrival_s
    with pytest.raises(ValueError, match="longer than"):
        Behaviour(stall_s=1, stall_every_s=1)
