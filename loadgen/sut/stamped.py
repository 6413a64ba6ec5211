"""The kernel's packet stamps of a socket: asked for, and received with the bytes, in C where that could be compiled."""

import contextlib
import socket
import struct
from collections.abc import Callable, Sequence
from functools import partial

compiled: Callable[[int, int], tuple[bytes, int]] | None = None
"""`receive_in_python` in C, by a file descriptor; None where no C compiler was there when this was installed."""
with contextlib.suppress(ImportError):
    from loadgen.sut import _stamped

    compiled = _stamped.receive

SO_TIMESTAMPING = 37
"""Option and control message on x86-64 and ARM; Python's socket module has no name for it."""
RECEIVE = 1 << 3 | 1 << 4
"""SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE."""
SEND = 1 << 1 | 1 << 11
"""SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY: the error queue then holds no copy of the request."""
STAMP_ROOM = socket.CMSG_SPACE(48) if hasattr(socket, "CMSG_SPACE") else 64
"""Bytes of a control message with the kernel's three timespecs, of which the first is the software's."""
ERROR_ROOM = 256
"""Bytes of the error queue's control messages: a stamp, and a sock_extended_err with an address."""
_timespec = struct.Struct("qq").unpack_from
Receive = Callable[[int], tuple[bytes, int]]


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


def receiver(connected: socket.socket) -> Receive:
    """Return a function like `receive_in_python` for this socket, in C where that was compiled.

    In C it takes 64 KiB at most, from the socket's file descriptor as it is now.
    """
    if compiled is None:
        return partial(receive_in_python, connected)
    return partial(compiled, connected.fileno())


def receive_in_python(connected: socket.socket, most: int) -> tuple[bytes, int]:
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
