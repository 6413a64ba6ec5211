"""Receiving in C and in Python: the same bytes, the same stamps, the same errors."""

import socket
import time
from collections.abc import Iterator

import pytest

from loadgen.sut import stamped
from loadgen.sut.stamped import Receive, ask_for_stamps, receiver
from loadgen.transport.tcp import RECEIVE_BYTES

S = 1_000_000_000
compiled = pytest.mark.skipif(stamped.compiled is None, reason="no C compiler was there at `make setup`")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection, the first without waiting."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    near.setblocking(False)
    with near, far:
        yield near, far


@pytest.fixture(params=["python", pytest.param("c", marks=compiled)])
def receive(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, pair: tuple[socket.socket, socket.socket]
) -> Receive:
    """Receive at the near end."""
    if request.param == "python":
        monkeypatch.setattr(stamped, "compiled", None)
    return receiver(pair[0])


def arrived(receive: Receive, most: int = 100) -> tuple[bytes, int]:
    """Receive what the other end has sent; over loopback it is there at once, but for a busy machine."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            return receive(most)
        except BlockingIOError:
            continue
    raise TimeoutError


def test_bytes_come_with_the_kernels_stamp(pair: tuple[socket.socket, socket.socket], receive: Receive) -> None:
    near, far = pair
    if not ask_for_stamps(near):
        pytest.skip("this kernel stamps nothing")
    before = time.time_ns()
    far.sendall(b"abc")
    data, stamp = arrived(receive)
    assert data == b"abc"
    assert before - S < stamp < time.time_ns() + S


def test_without_being_asked_the_stamp_is_0(pair: tuple[socket.socket, socket.socket], receive: Receive) -> None:
    _, far = pair
    far.sendall(b"abcdef")
    assert arrived(receive, 4) == (b"abcd", 0)
    assert arrived(receive, 4) == (b"ef", 0)


def test_the_end_and_errors_are_those_of_a_socket(pair: tuple[socket.socket, socket.socket], receive: Receive) -> None:
    near, far = pair
    with pytest.raises(BlockingIOError):
        receive(10)
    far.close()
    assert arrived(receive) == (b"", 0)
    near.close()
    with pytest.raises((OSError, ValueError)):
        receive(10)


@compiled
@pytest.mark.parametrize("most", [-1, RECEIVE_BYTES + 1])
def test_more_than_its_memory_is_refused(pair: tuple[socket.socket, socket.socket], most: int) -> None:
    with pytest.raises(ValueError, match="0 to 65536 bytes"):
        receiver(pair[0])(most)


def test_one_that_was_reset_is_told(pair: tuple[socket.socket, socket.socket], receive: Receive) -> None:
    _, far = pair
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close() resets
    far.close()
    with pytest.raises(ConnectionResetError):
        arrived(receive)
