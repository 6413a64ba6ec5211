"""One keep-alive HTTP connection that never blocks and carries at most one request at a time."""

import errno
import os
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

# Importing Locust replaces the socket module's classes by gevent's, which switch greenlets on every call. The driver
# does its own waiting, so it wants the operating system's.
from gevent.monkey import get_original

from loadgen.kserve import HEAD_END, Head, MalformedResponse, ResponseChecker

_socket_class = get_original("socket", "socket")

_RECEIVE_BYTES = 1 << 16
_IN_PROGRESS = (errno.EINPROGRESS, errno.EWOULDBLOCK)


class Address(NamedTuple):
    """A resolved TCP endpoint."""

    family: int
    sockaddr: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Payload:
    """One request, serialised ahead. `golden_rows` are the rows of the golden samples it is made of, if it is."""

    request: bytes
    golden_rows: tuple[int, ...] = ()


class State(Enum):
    """What a connection is doing."""

    CLOSED = auto()
    CONNECTING = auto()
    IDLE = auto()
    SENDING = auto()
    RECEIVING = auto()


class Response(NamedTuple):
    """A complete response; `error` is its kind of failure, None where it is right."""

    head: Head
    body: bytes
    error: str | None


class ConnectionFailed(Exception):  # noqa: N818 - an outcome that is counted, not a fault of ours
    """The connection broke; `kind` is the error's name in the result."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Connection:
    """A socket with the request and the part of the response that are on their way.

    The driver sets `payload`, `scheduled` and `sent` (ns of the monotonic clock) and calls `open`, `start`, `writable`
    and `readable` as the poller says.
    """

    __slots__ = ("_checker", "_head", "_received", "_socket", "_unsent", "fd", "payload", "scheduled", "sent", "state")

    def __init__(self, checker: ResponseChecker) -> None:
        self._checker = checker
        self._unsent: memoryview | None = None
        self._received = bytearray()
        self._head: Head | None = None
        self.fd = -1
        self.state = State.CLOSED
        self.payload: Payload | None = None
        self.scheduled = 0
        self.sent = 0

    def open(self, address: Address) -> None:
        """Begin to connect. Raises ConnectionFailed where that fails at once."""
        import socket

        try:
            self._socket = _socket_class(address.family, socket.SOCK_STREAM)
        except OSError as error:
            raise _failed(error.errno) from error
        self._socket.setblocking(False)
        # A request must not wait for the previous one's acknowledgement (Nagle).
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fd = self._socket.fileno()
        self.state = State.CONNECTING
        code = self._socket.connect_ex(address.sockaddr)
        if code not in (0, *_IN_PROGRESS):
            raise _failed(code)

    def connected(self) -> None:
        """Finish connecting, when the socket has become writable. Raises ConnectionFailed."""
        import socket

        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise _failed(code)
        self.state = State.IDLE

    def start(self) -> bool:
        """Send the payload; False where the socket took only a part and must become writable first."""
        assert self.payload is not None
        request = self.payload.request
        try:
            count = self._socket.send(request)
        except BlockingIOError:
            count = 0
        except OSError as error:
            raise _failed(error.errno) from error
        if count == len(request):
            self.state = State.RECEIVING
            return True
        self._unsent = memoryview(request)[count:]
        self.state = State.SENDING
        return False

    def writable(self) -> bool:
        """Send more of a large request; True when all of it is out."""
        assert self._unsent is not None
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return False
        except OSError as error:
            raise _failed(error.errno) from error
        if self._unsent:
            return False
        self._unsent = None
        self.state = State.RECEIVING
        return True

    def readable(self) -> Response | None:
        """Take what has come; the response once it is complete. Raises ConnectionFailed, MalformedResponse."""
        try:
            data: bytes = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            raise _failed(error.errno) from error
        if not data:
            raise ConnectionFailed(
                "connection_closed", "the server closed the connection before the response was complete"
            )
        if self._received:
            self._received += data
            if self._head is not None and len(self._received) < self._head.content_length:
                return None
            data = bytes(self._received)
        if self._head is not None:
            return self._finish(data)
        end = data.find(HEAD_END)
        if end < 0:
            self._received = bytearray(data)
            return None
        self._head = self._checker.head(data[:end])
        body = data[end + 4 :]
        if len(body) < self._head.content_length:
            self._received = bytearray(body)
            return None
        return self._finish(body)

    def _finish(self, body: bytes) -> Response | None:
        head = self._head
        assert head is not None
        if len(body) < head.content_length:
            self._received = bytearray(body)
            return None
        if len(body) > head.content_length:
            raise MalformedResponse(f"{len(body) - head.content_length} bytes beyond the response's Content-Length")
        self._head = None
        if self._received:
            self._received = bytearray()
        # An answer before the whole request is out leaves a connection that cannot carry the next one.
        self.state = State.IDLE if self._unsent is None else State.SENDING
        return Response(head, body, self._checker.judge(head, body))

    def close(self) -> None:
        """Close the socket and forget what was on its way."""
        if self.state is not State.CLOSED:
            self._socket.close()
        self.state = State.CLOSED
        self.fd = -1
        self._unsent = None
        self._head = None
        self._received = bytearray()


_KINDS = {
    errno.ECONNREFUSED: "connection_refused",
    errno.ECONNRESET: "connection_reset",
    errno.EPIPE: "connection_reset",
    errno.ETIMEDOUT: "connect_timeout",
    errno.EHOSTUNREACH: "host_unreachable",
    errno.ENETUNREACH: "host_unreachable",
    errno.EMFILE: "too_many_open_files",
}


def _failed(code: int | None) -> ConnectionFailed:
    code = code or 0
    return ConnectionFailed(_KINDS.get(code, "connection_error"), os.strerror(code))
