"""The kernel's stamps on the clock of the process: slews are followed, steps and impossible stamps are refused.

Receiving in C and in Python: the same bytes at the same times, the same errors.
"""

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from loadgen.sut import kernel_clock
from loadgen.sut.kernel_clock import DISTRUST_NS, FOLLOW_NS, STAMP_NS, KernelClock, Receive, Stamped
from loadgen.transport import tcp
from loadgen.transport.tcp import RECEIVE_BYTES, Socket

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

    sent: int = 0
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


compiled = pytest.mark.skipif(kernel_clock.compiled is None, reason="no C compiler was there at `make setup`")
Pair = tuple[Socket, socket.socket]


class Clock(KernelClock):
    """A clock that counts how often it was asked."""

    asked_for = 0

    def came(self, channel: Stamped, stamp: int) -> int:
        self.asked_for += 1
        return super().came(channel, stamp)


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Both ends of a TCP connection, the first without waiting."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = Socket(socket.AF_INET, socket.SOCK_STREAM)
        near.connect(listening.getsockname())
        far, _ = listening.accept()
    near.setblocking(False)
    with near, far:
        yield near, far


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["python", pytest.param("c", marks=compiled)])
def receive(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, pair: Pair, clock: Clock) -> Receive:
    """Receive at the near end."""
    if request.param == "python":
        monkeypatch.setattr(tcp, "compiled", None)
    return pair[0].receiver(clock, Channel())


def arrived(receive: Receive, most: int = 100, sent: int = 0) -> tuple[bytes, int]:
    """Receive what the other end has sent; over loopback it is there at once, but for a busy machine."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            return receive(most, sent)
        except BlockingIOError:
            continue
    raise TimeoutError


def stamps(pair: Pair) -> None:
    """Turn stamping on, and wait until it is: the first packets of a machine may be without a stamp."""
    near, far = pair
    if not near.ask_for_stamps():
        pytest.skip("this kernel stamps nothing")
    until = time.monotonic() + 5
    while time.monotonic() < until:
        far.sendall(b".")
        near.setblocking(True)
        stamp = near.take(1)[1]
        near.setblocking(False)
        if stamp:
            return
    pytest.skip("this kernel stamps nothing")


def test_bytes_came_when_the_kernel_had_them(pair: Pair, receive: Receive, clock: Clock) -> None:
    stamps(pair)
    for _ in range(2):
        begin = time.monotonic_ns()
        pair[1].sendall(b"abc")
        until = time.monotonic_ns()
        time.sleep(0.05)
        data, came = arrived(receive, sent=begin)
        assert data == b"abc"
        assert begin <= came <= until + 25_000_000
    assert (clock.missing, clock.refused) == (0, 0)


@compiled
def test_in_c_the_clock_is_asked_where_something_is_due_or_the_stamp_cannot_be(pair: Pair, clock: Clock) -> None:
    stamps(pair)
    receive = pair[0].receiver(clock, Channel())

    def asked(sent: int = 0) -> int:
        before = clock.asked_for
        pair[1].sendall(b"abc")
        _, came = arrived(receive, sent=sent)
        assert abs(came - time.monotonic_ns()) < 10 * S
        return clock.asked_for - before

    assert asked() == 1  # the offset is not known yet
    clock.due = time.monotonic_ns() + 100 * S
    assert asked() == 0
    assert asked(sent=time.monotonic_ns() + 50 * S) == 1
    clock.offset -= S  # as if the bytes came after the reading
    assert asked() == 1
    clock.offset += S
    clock.due = 0
    assert asked() == 1


@compiled
def test_in_c_an_error_of_the_clock_is_raised(pair: Pair, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(Clock, "came", lambda *_: 1 // 0)
    pair[1].sendall(b"abc")
    with pytest.raises(ZeroDivisionError):
        arrived(pair[0].receiver(clock, Channel()))


@compiled
def test_in_c_another_clock_is_refused(pair: Pair) -> None:
    with pytest.raises(TypeError, match="ClockOffset"):
        pair[0].receiver(Channel(), Channel())  # type: ignore[arg-type]


def test_without_a_stamp_bytes_came_when_they_were_read(pair: Pair, receive: Receive, clock: Clock) -> None:
    pair[1].sendall(b"abcdef")
    begin = time.monotonic_ns()
    first, second = arrived(receive, 4), arrived(receive, 4)
    assert (first[0], second[0]) == (b"abcd", b"ef")
    assert begin <= first[1] <= second[1] <= time.monotonic_ns()
    assert clock.missing == 2


def test_the_end_and_errors_are_those_of_a_socket(pair: Pair, receive: Receive, clock: Clock) -> None:
    near, far = pair
    with pytest.raises(BlockingIOError):
        receive(10, 0)
    far.close()
    assert arrived(receive) == (b"", 0)
    near.close()
    with pytest.raises((OSError, ValueError)):
        receive(10, 0)
    assert clock.missing == 0  # nothing came


@compiled
@pytest.mark.parametrize("most", [-1, RECEIVE_BYTES + 1])
def test_more_than_its_memory_is_refused(pair: Pair, most: int, clock: Clock) -> None:
    with pytest.raises(ValueError, match="0 to 65536 bytes"):
        pair[0].receiver(clock, Channel())(most, 0)


def test_one_that_was_reset_is_told(pair: Pair, receive: Receive) -> None:
    _, far = pair
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close() resets
    far.close()
    with pytest.raises(ConnectionResetError):
        arrived(receive)
