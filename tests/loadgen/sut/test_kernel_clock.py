"""The kernel's stamps on the clock of the process: slews are followed, steps and impossible stamps are refused."""

from dataclasses import dataclass

import pytest

from loadgen.sut.kernel_clock import DISTRUST_NS, FOLLOW_NS, STAMP_NS, KernelClock

MS = 1_000_000
S = 1000 * MS
TODAY = 1_764_000_000 * S


class Clocks:
    """Both clocks of a machine; each reading takes 100 ns. `ppm` slews the time of day, `step` sets it."""

    def __init__(self) -> None:
        self.monotonic, self.real, self.ppm = 5 * S, TODAY, 0.0

    def pass_by(self, ns: int) -> None:
        self.monotonic += ns
        self.real += round(ns * (1 + self.ppm / 1e6))

    def read_monotonic(self) -> int:
        self.pass_by(100)
        return self.monotonic

    def read_real(self) -> int:
        self.pass_by(100)
        return self.real

    def stamp(self) -> int:
        """Give the kernel's stamp of a packet that comes now."""
        return self.real


@dataclass
class Channel:
    """A channel with a request in flight."""

    sent: int
    chosen: int = 0

    def stamp_next_request(self) -> None:
        self.chosen += 1


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def answered(clocks: Clocks, clock: KernelClock, *, after: int = 3 * MS, read_after: int = 2 * MS) -> int:
    """Return by how many ns the clock is off of an answer that lies in the socket until it is read."""
    channel = Channel(clocks.read_monotonic())
    clocks.pass_by(after)
    came, stamp = clocks.monotonic, clocks.stamp()
    clocks.pass_by(read_after)
    return clock.came(channel, stamp) - came


def test_an_answer_came_when_the_kernel_had_it(clocks: Clocks) -> None:
    clock = KernelClock(clocks.read_real, clocks.read_monotonic)
    assert [abs(answered(clocks, clock)) <= 200 for _ in range(50)] == [True] * 50
    assert (clock.missing, clock.refused, clock.steps) == (0, 0, 0)


def test_the_sending_of_a_request_in_some_milliseconds_is_stamped(clocks: Clocks) -> None:
    clock, channel = KernelClock(clocks.read_real, clocks.read_monotonic), Channel(0)
    for _ in range(10_000):  # 10,000 requests/s
        clocks.pass_by(MS // 10)
        clock.came(channel, clocks.stamp())
    assert channel.chosen == pytest.approx(1e9 / STAMP_NS, rel=0.05)


def test_without_a_stamp_the_time_of_the_reading_stands(clocks: Clocks) -> None:
    clock = KernelClock(clocks.read_real, clocks.read_monotonic)
    channel = Channel(clocks.read_monotonic())
    clocks.pass_by(5 * MS)
    begin = clocks.monotonic
    assert begin < clock.came(channel, 0) <= clocks.monotonic
    assert (clock.missing, clock.refused) == (1, 0)


@pytest.mark.parametrize("away", [-6 * MS, 6 * MS], ids=["before the request", "after the reading"])
def test_a_stamp_that_cannot_be_is_refused(clocks: Clocks, away: int) -> None:
    clock = KernelClock(clocks.read_real, clocks.read_monotonic)
    answered(clocks, clock)
    channel = Channel(clocks.read_monotonic())
    clocks.pass_by(MS // 2)
    clocks.real += away
    stamp = clocks.stamp()
    clocks.real -= away
    clocks.pass_by(MS // 4)
    begin = clocks.monotonic
    assert begin < clock.came(channel, stamp) <= clocks.monotonic
    assert (clock.missing, clock.refused, clock.steps) == (0, 1, 0)


@pytest.mark.parametrize("ppm", [500, -500, 80_000])
def test_a_slew_is_followed(clocks: Clocks, ppm: float) -> None:
    """The kernel slews by 500 ppm at most, chrony by 83,333."""
    clock = KernelClock(clocks.read_real, clocks.read_monotonic)
    answered(clocks, clock)
    clocks.ppm = ppm
    bound = 200 + abs(ppm) * 1e-6 * (2 * MS + FOLLOW_NS)
    assert [abs(answered(clocks, clock)) <= bound for _ in range(500)] == [True] * 500
    assert (clock.refused, clock.steps) == (0, 0)


@pytest.mark.parametrize("step", [S, -S, 7 * MS, -7 * MS])
def test_no_answer_is_off_by_a_step(clocks: Clocks, step: int) -> None:
    """After it the time of the reading stands, until no answer from before can be waiting any more."""
    clock = KernelClock(clocks.read_real, clocks.read_monotonic)
    answered(clocks, clock)
    clocks.real += step
    begin, offs = clocks.monotonic, []
    while clocks.monotonic < begin + DISTRUST_NS - 5 * MS:
        offs.append(answered(clocks, clock))
    assert all(2 * MS - 200 <= off <= 2 * MS + 2000 for off in offs)
    assert (clock.steps, clock.refused) == (1, len(offs))
    clocks.pass_by(10 * MS)
    assert abs(answered(clocks, clock)) <= 200


def test_the_send_error_is_the_kernels_time_less_the_process(clocks: Clocks) -> None:
    clock = KernelClock(clocks.read_real, clocks.read_monotonic)
    answered(clocks, clock)
    begin = clocks.monotonic
    for late in (30_000, 90_000):
        older = clocks.stamp()
        clocks.pass_by(MS // 100)
        sent = clocks.read_monotonic()
        assert not clock.went(older, sent)
        assert not clock.went(0, sent)
        clocks.pass_by(late)
        assert clock.went(clocks.stamp(), sent)
    clock.flush(begin, clocks.monotonic)
    low, high = clock.send_error.percentile(25) * MS, clock.send_error.percentile(100) * MS
    assert low == pytest.approx(30_000, abs=1500)
    assert high == pytest.approx(90_000, abs=1500)
    clock.flush(begin, clocks.monotonic)
    assert clock.send_error.count == 2


def test_the_counts_of_several_processes_are_added() -> None:
    whole, part = KernelClock(), KernelClock()
    part.missing, part.refused, part.steps = 1, 2, 3
    for _ in range(2):
        whole.add(part.pack())
    assert (whole.missing, whole.refused, whole.steps, whole.send_error.count) == (2, 4, 6, 0)
