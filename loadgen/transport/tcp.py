"""The socket below a channel, of TCP or Unix: it connects, receives, and names what broke."""

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from loadgen.sut.channel import READ, WRITE, Channel, ConnectionFailed, State
from loadgen.sut.kernel_clock import KernelClock, Receive, Stamped, compiled, receiver_in_python
from loadgen.transport.server_url import socket_path
from servemark.errors import ServerError
from servemark.machine.addresses import is_loopback, listeners, places, socket_listeners

if TYPE_CHECKING:
    _OriginalSocket = socket.socket
else:
    # Importing Locust replaces the socket module's classes by gevent's, which switch greenlets on every call. The
    # driver does its own waiting, so it wants the operating system's.
    from gevent.monkey import get_original

    _OriginalSocket = get_original("socket", "socket")

FIRST_RECEIVE_BYTES = 1 << 12
"""Bytes that a connection's first read has room for; memory for more costs each small answer a tenth of its read."""
RECEIVE_BYTES = 1 << 16
"""Most bytes taken at once, where it is not known that more will come."""
MAX_RECEIVE_BYTES = 4 << 20
"""Most bytes taken at once where more is announced: memory for them is set aside before they come."""
SO_TIMESTAMPING = 37
"""Option and control message on x86-64 and ARM (socket(7), the kernel's networking/timestamping.rst); Python's socket
module has no name for it."""
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
PROBE_TIMEOUT_S = 2.0
"""Timeout for each address of a name that has several."""
CORRECT_HOST = "correct the host in --url; this machine must know its name"
_timespec = struct.Struct("qq").unpack_from
_IN_PROGRESS = (errno.EINPROGRESS, errno.EWOULDBLOCK)
_PORTS = {"http": 80, "https": 443, "grpc": 8001, "grpcs": 8001}  # 8001 is Triton's
_KINDS = {
    errno.ECONNREFUSED: "connection_refused",
    errno.ENOENT: "connection_refused",  # of a Unix socket
    errno.EAGAIN: "connection_refused",  # of a Unix socket, whose queue is full
    errno.ECONNRESET: "connection_reset",
    errno.EPIPE: "connection_reset",
    errno.ETIMEDOUT: "connect_timeout",
    errno.EHOSTUNREACH: "host_unreachable",
    errno.ENETUNREACH: "host_unreachable",
    errno.EMFILE: "too_many_open_files",
    errno.EADDRNOTAVAIL: "no_local_port",
}


class Socket(_OriginalSocket):
    """Socket of a channel: plain TCP, or a subclass that wraps the bytes."""

    __slots__ = ()

    def handshake(self) -> int:
        """Go on with what comes before the first request; what it waits for, 0 once it is done: nothing over TCP."""
        return 0

    def ask_for_stamps(self, flags: int = RECEIVE) -> bool:
        """Have the kernel stamp what is received, with SEND also what is sent; False where there are no stamps.

        Unix sockets have none. Some containers (gVisor) refuse the option, others take it and hand out nothing.
        """
        if self.family == socket.AF_UNIX:
            return False
        with contextlib.suppress(OSError):
            self.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, flags)
            return True
        return False

    def receiver(self, clock: KernelClock, channel: Stamped) -> Receive:
        """Return a function that receives RECEIVE_BYTES at most, in C where that was compiled.

        In C it takes no memory that it does not need, and receives from the file descriptor as it is now. It raises
        OSError, and BlockingIOError where nothing has come.
        """
        if compiled is None:
            return receiver_in_python(self.take, clock, channel)
        return compiled(self.fileno(), clock, channel)

    def take(self, most: int) -> tuple[bytes, int]:
        """Return at most so many bytes, b"" where the server has closed, and the kernel's stamp of the last of them.

        A stamp is of CLOCK_REALTIME (ns), 0 where there is none. Raises OSError, and BlockingIOError where nothing has
        come.
        """
        data, ancillary, _, _ = self.recvmsg(most, STAMP_ROOM)
        return data, _stamp_of(ancillary)

    def sending_stamp(self) -> int:
        """Take a stamp from the error queue: when the kernel sent something, 0 for another message. Raises OSError."""
        return _stamp_of(self.recvmsg(0, ERROR_ROOM, socket.MSG_ERRQUEUE)[1])


def _stamp_of(ancillary: Sequence[tuple[int, int, bytes]]) -> int:
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPING):
            seconds, ns = _timespec(data)
            return int(seconds * 1_000_000_000 + ns)
    return 0


@dataclass(frozen=True)
class Address:
    """A resolved endpoint, of TCP or the path of a Unix socket, and the sockets that reach it (family, kind)."""

    family: int
    sockaddr: tuple[str | int, ...] | str
    socket: Callable[[int, int], Socket] = Socket
    clock: KernelClock = field(default_factory=KernelClock, compare=False)
    """Tells when answers came; the channels to all servers of a target share it."""

    @property
    def is_local(self) -> bool:
        """Return True if only this machine is reached by it."""
        return isinstance(self.sockaddr, str) or is_loopback(str(self.sockaddr[0]))

    def processes(self) -> list[int]:
        """List the processes of this machine that listen there. Raises LookupError where they cannot be known."""
        if isinstance(self.sockaddr, str):
            return socket_listeners(self.sockaddr)
        host, port = self.sockaddr[:2]
        return listeners(str(host), int(port))


class TcpChannel(Channel):
    """A non-blocking socket with the state that the driver reads: what every channel to a server has in common."""

    __slots__ = (
        "_address", "_chosen_during", "_clock", "_room", "_sending_stamped", "_socket", "_stamped", "_take_few", "came",
    )  # fmt: skip

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address, self._clock = address, address.clock
        self._stamped = False
        self._room = FIRST_RECEIVE_BYTES
        self._sending_stamped = False
        self._chosen_during = 0
        """When the request was sent that was under way as the next one's sending was chosen to be stamped."""
        self.came = 0

    def open(self) -> None:
        """Begin to connect. Raises ConnectionFailed where that fails at once."""
        try:
            self._socket = self._address.socket(self._address.family, socket.SOCK_STREAM)
        except OSError as error:
            raise failed(error.errno) from error
        self._socket.setblocking(False)
        self._take_few = self._socket.receiver(self._clock, self)
        self._stamped = self._clock.asked and self._socket.ask_for_stamps()
        self._sending_stamped = False
        if self._address.family != socket.AF_UNIX:
            # A request must not wait for the previous one's acknowledgement (Nagle).
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fd = self._socket.fileno()
        self.state = State.CONNECTING
        self.wants = WRITE
        code = self._socket.connect_ex(self._address.sockaddr)
        # A Unix socket is connected at once, or its server's queue is full.
        if code not in (0, *_IN_PROGRESS) or (code and self._address.family == socket.AF_UNIX):
            raise failed(code)

    def connected(self) -> None:
        """Go on connecting, when what it wants has come: IDLE once it is done. Raises ConnectionFailed."""
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise failed(code)
        try:
            self.wants = self._socket.handshake()
        except OSError as error:
            raise failed(error.errno) from error
        if self.wants:
            return
        self.state = State.IDLE
        self.wants = READ

    def close(self) -> None:
        if self.state is not State.CLOSED:
            self._socket.close()
        self.state = State.CLOSED
        self.wants = self.watched = 0
        self.fd = -1

    def _receive(self, announced: int = 0) -> bytes | None:
        """Return the bytes received, None if there are none. Raises ConnectionFailed, also if the server has closed.

        A read has room for the bytes that are `announced`, or for as many as came before.
        """
        try:
            if announced <= self._room:
                data, self.came = self._take_few(self._room, self.sent)
            else:
                data, stamp = self._socket.take(min(announced, MAX_RECEIVE_BYTES))
                self.came = self._clock.came(self, stamp)
        except BlockingIOError:
            # A stamp that is left in the error queue would wake the loop for ever.
            if self._stamped:
                self._take_send_stamps()
            return None
        except OSError as error:
            raise failed(error.errno) from error
        if self._sending_stamped:
            self._take_send_stamps()
        if len(data) >= self._room:
            self._room = min(2 * len(data), RECEIVE_BYTES)
        if not data:
            raise ConnectionFailed(
                "connection_closed", "the server closed the connection before the response was complete"
            )
        return data

    def stamp_next_request(self) -> None:
        """Have the kernel stamp the sending of the next request: epoll says EPOLLIN or EPOLLERR when it has.

        What is sent until then, as HTTP/2's window updates for the answer under way, is stamped too.
        """
        if self._stamped and not self._sending_stamped:
            self._sending_stamped = self._socket.ask_for_stamps(RECEIVE | SEND)
            self._chosen_during = self.sent

    def _take_send_stamps(self) -> None:
        """Empty the error queue; the first stamp of the request that is chosen says when it was sent."""
        while True:
            try:
                stamp = self._socket.sending_stamp()
            except OSError:  # empty, or not there yet
                return
            chosen = self._sending_stamped and self.state is State.BUSY and self.sent != self._chosen_during
            if chosen and self._clock.went(stamp, self.sent):
                self._sending_stamped = not self._socket.ask_for_stamps()


def failed(code: int | None) -> ConnectionFailed:
    """The outcome that an error number of the operating system is counted as."""
    code = code or 0
    return ConnectionFailed(_KINDS.get(code, "connection_error"), os.strerror(code))


def cause(error: OSError | ValueError) -> str:
    """The part of an error that a person can act on."""
    return (getattr(error, "strerror", None) or f"{type(error).__name__} {error}")[:200].lower()


def resolve(url: str, socket_class: Callable[[int, int], Socket] = Socket) -> Address:
    """The address of a URL's host, of several the first that connects. Raises ServerError where there is none."""
    if path := socket_path(url):
        return Address(socket.AF_UNIX, path)
    parts = urlsplit(url)
    try:
        addresses = places(parts.hostname or "", parts.port or _PORTS[parts.scheme])
    except (OSError, ValueError) as error:
        fix = CORRECT_HOST if isinstance(error, socket.gaierror) else "check --url"
        raise ServerError(f"no server answers at {url} ({cause(error)})", fix=fix) from error
    # A server may listen at one of them only, as at 127.0.0.1 where `localhost` is ::1 too.
    listening = (address for address in addresses if _connects(*address))
    family, sockaddr = next(listening, addresses[0]) if len(addresses) > 1 else addresses[0]
    return Address(family, sockaddr, socket_class)


def _connects(family: int, sockaddr: tuple[str | int, ...]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_TIMEOUT_S)
        return probe.connect_ex(sockaddr) == 0
