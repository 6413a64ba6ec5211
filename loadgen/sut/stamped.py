"""The kernel's packet stamps of a socket: asked for, and received with the bytes, in C where that could be compiled."""

import contextlib
import socket
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

SO_TIMESTAMPING = 37
"""Option and control message on x86-64 and ARM; Python's socket module has no name for it."""
RECEIVE = 1 << 3 | 1 << 4 | 1 << 11
"""SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY: the error queue holds no copy
of what was sent. Such copies take the place of answers, so that the server may send no more of them; they come also
after SEND was taken away, for packets that were under way."""
SEND = 1 << 1
"""SOF_TIMESTAMPING_TX_SOFTWARE."""
STAMP_ROOM = socket.CMSG_SPACE(48) if hasattr(socket, "CMSG_SPACE") else 64
"""Bytes of a control message with the kernel's three timespecs, of which the first is the software's."""
ERROR_ROOM = 256
"""Bytes of the error queue's control messages: a stamp, and a sock_extended_err with an address."""
_timespec = struct.Struct("qq").unpack_from
Receive = Callable[[int, int], tuple[bytes, int]]
"""Takes the most bytes to receive and when the request was sent, and returns the bytes and when the last of them had
come (ns of the monotonic clock); b"" and 0 where the other side has closed."""


class Stamped(Protocol):
    """A channel whose bytes the kernel stamps."""

    @property
    def sent(self) -> int:
        """When its request was sent, in ns of the monotonic clock."""

    def stamp_next_request(self) -> None:
        """Have the kernel stamp the sending of the next request."""


class OffsetInPython:
    """By how much the time of day is ahead of the monotonic clock (`offset`), and when that is `due` to be measured."""

    offset = due = 0


class Clock(Protocol):
    """Puts a stamp on the monotonic clock."""

    def came(self, channel: Stamped, stamp: int) -> int:
        """Return when the last bytes that a channel took had come."""


if TYPE_CHECKING:
    ClockOffset = OffsetInPython
    compiled: Callable[[int, Any, Stamped], Receive] | None
else:
    try:
        from loadgen.sut._stamped import ClockOffset
        from loadgen.sut._stamped import receiver as compiled
    except ImportError:
        ClockOffset, compiled = OffsetInPython, None


def ask_for_stamps(connected: socket.socket, flags: int = RECEIVE) -> bool:
    """Have the kernel stamp what a socket receives, with SEND also what it sends; False where there are no stamps.

    Unix sockets have none. Some containers (gVisor) refuse the option, others take it and hand out nothing.
    """
    if connected.family == socket.AF_UNIX:
        return False
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, flags)
        return True
    return False


def receiver(connected: socket.socket, clock: Clock, channel: Stamped) -> Receive:
    """Return a function that receives for a channel, in C where that was compiled.

    In C it takes 64 KiB at most, from the socket's file descriptor as it is now. It raises OSError, and BlockingIOError
    where nothing has come.
    """
    if compiled is None:
        return receiver_in_python(lambda most: receive(connected, most), clock, channel)
    return compiled(connected.fileno(), clock, channel)


def receiver_in_python(take: Callable[[int], tuple[bytes, int]], clock: Clock, channel: Stamped) -> Receive:
    """Return a function that receives what `take` returns: the bytes, and the stamp of the last of them."""

    def receiving(most: int, _sent: int) -> tuple[bytes, int]:
        data, stamp = take(most)
        return data, clock.came(channel, stamp) if data else 0

    return receiving


def receive(connected: socket.socket, most: int) -> tuple[bytes, int]:
    """Return at most so many bytes, b"" where the other side has closed, and the stamp of the last of them.

    A stamp is of CLOCK_REALTIME (ns), 0 where there is none. Raises OSError, and BlockingIOError where nothing has
    come.
    """
    data, ancillary, _, _ = connected.recvmsg(most, STAMP_ROOM)
    return data, _stamp_of(ancillary)


def sending_stamp(connected: socket.socket) -> int:
    """Take a stamp from the error queue: when the kernel sent something, 0 for another message. Raises OSError."""
    return _stamp_of(connected.recvmsg(0, ERROR_ROOM, socket.MSG_ERRQUEUE)[1])


def _stamp_of(ancillary: Sequence[tuple[int, int, bytes]]) -> int:
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPING):
            seconds, ns = _timespec(data)
            return int(seconds * 1_000_000_000 + ns)
    return 0
