"""One keep-alive HTTP connection that never blocks and carries at most one request at a time."""

import errno
import os
import socket
import time
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

# Importing Locust replaces the socket module's classes by gevent's, which switch greenlets on every call. The driver
# does its own waiting, so it wants the operating system's.
from gevent.monkey import get_original

from loadgen.channel import READ, WRITE, Arrays, ConnectionFailed, Payload, State
from loadgen.kserve import HEAD_END, Head, MalformedResponse, ResponseChecker, decode_outputs, error_message
from servemark.errors import ServerError
from servemark.models import Tensor

_socket_class = get_original("socket", "socket")

_RECEIVE_BYTES = 1 << 16
_IN_PROGRESS = (errno.EINPROGRESS, errno.EWOULDBLOCK)


class Address(NamedTuple):
    """A resolved TCP endpoint."""

    family: int
    sockaddr: tuple[str | int, ...]


class Response(NamedTuple):
    """A complete response; `error` is its kind of failure, None where it is right."""

    head: Head
    body: bytes
    error: str | None

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return self.head.content_length

    def message(self) -> str:
        """The server's own words about a failed request."""
        return error_message(self.head, self.body)

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:
        """The outputs."""
        return decode_outputs(self.head, self.body, outputs)


class Connection:
    """A channel: a socket with the request and the part of the response that are on their way."""

    __slots__ = (
        "_address", "_checker", "_head", "_received", "_socket", "_unsent",
        "done", "fd", "payload", "scheduled", "sent", "state", "wants", "watched",
    )  # fmt: skip

    def __init__(self, address: Address, checker: ResponseChecker) -> None:
        self._address = address
        self._checker = checker
        self._unsent: memoryview | None = None
        self._received = bytearray()
        self._head: Head | None = None
        self.fd = -1
        self.state = State.CLOSED
        self.wants = self.watched = 0
        self.payload: Payload | None = None
        self.scheduled = self.sent = self.done = 0

    def open(self) -> None:
        """Begin to connect. Raises ConnectionFailed where that fails at once."""
        try:
            self._socket = _socket_class(self._address.family, socket.SOCK_STREAM)
        except OSError as error:
            raise _failed(error.errno) from error
        self._socket.setblocking(False)
        # A request must not wait for the previous one's acknowledgement (Nagle).
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fd = self._socket.fileno()
        self.state = State.CONNECTING
        self.wants = WRITE
        code = self._socket.connect_ex(self._address.sockaddr)
        if code not in (0, *_IN_PROGRESS):
            raise _failed(code)

    def connected(self) -> None:
        """Finish connecting, when the socket has become writable. Raises ConnectionFailed."""
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise _failed(code)
        self.state = State.IDLE
        self.wants = READ

    def start(self) -> None:
        """Send the payload; where the socket takes only a part, it must become writable first."""
        assert self.payload is not None
        request: bytes = self.payload.request
        self.state = State.BUSY
        try:
            count = self._socket.send(request)
        except BlockingIOError:
            count = 0
        except OSError as error:
            raise _failed(error.errno) from error
        if count < len(request):
            self._unsent = memoryview(request)[count:]
            self.wants = READ | WRITE

    def writable(self) -> None:
        """Send more of a large request."""
        assert self._unsent is not None
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            raise _failed(error.errno) from error
        if not self._unsent:
            self._unsent = None
            self.wants = READ

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
        self.done = time.monotonic_ns()
        # An answer before the whole request is out leaves a connection that cannot carry the next one.
        self.state = State.IDLE if head.keep_alive and self._unsent is None else State.SPENT
        return Response(head, body, self._checker.judge(head, body))

    def unasked(self) -> bool:
        """Never good: a server has nothing to say on an idle connection, but it may close it."""
        return False

    def close(self) -> None:
        """Close the socket and forget what was on its way."""
        if self.state is not State.CLOSED:
            self._socket.close()
        self.state = State.CLOSED
        self.wants = self.watched = 0
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


def resolve(url: str) -> Address:
    """Look up the address of a URL's host. Raises ServerError."""
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise ServerError(f"{url} cannot be resolved: {error}", fix="check --url") from error
    family, _, _, _, sockaddr = found[0]
    return Address(family, tuple(part for part in sockaddr if isinstance(part, str | int)))
