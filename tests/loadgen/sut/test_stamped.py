"""Receiving in C and in Python: the same bytes at the same times, the same errors."""

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from loadgen.sut import stamped
from loadgen.sut.kernel_clock import KernelClock
from loadgen.sut.stamped import Receive, ask_for_stamps, receiver
from loadgen.transport.tcp import RECEIVE_BYTES

S = 1_000_000_000
compiled = pytest.mark.skipif(stamped.compiled is None, reason="no C compiler was there at `make setup`")
Pair = tuple[socket.socket, socket.socket]


class Clock(KernelClock):
    """A clock that counts how often it was asked."""

    asked_for = 0

    def came(self, channel: stamped.Stamped, stamp: int) -> int:
        self.asked_for += 1
        return super().came(channel, stamp)


@dataclass
class Channel:
    """A channel with a request in flight."""

    sent: int = 0

    def stamp_next_request(self) -> None:
        """Nothing is sent here."""


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Both ends of a TCP connection, the first without waiting."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
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
        monkeypatch.setattr(stamped, "compiled", None)
    return receiver(pair[0], clock, Channel())


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
    if not ask_for_stamps(near):
        pytest.skip("this kernel stamps nothing")
    until = time.monotonic() + 5
    while time.monotonic() < until:
        far.sendall(b".")
        near.setblocking(True)
        stamp = stamped.receive(near, 1)[1]
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
    receive = receiver(pair[0], clock, Channel())

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
        arrived(receiver(pair[0], clock, Channel()))


@compiled
def test_in_c_another_clock_is_refused(pair: Pair) -> None:
    with pytest.raises(TypeError, match="ClockOffset"):
        receiver(pair[0], Channel(), Channel())  # type: ignore[arg-type]


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
        receiver(pair[0], clock, Channel())(most, 0)


def test_one_that_was_reset_is_told(pair: Pair, receive: Receive) -> None:
    _, far = pair
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close() resets
    far.close()
    with pytest.raises(ConnectionResetError):
        arrived(receive)
