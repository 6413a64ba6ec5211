"""One keep-alive HTTP connection that never blocks and carries at most one request at a time."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from loadgen.channel import READ, WRITE, Answer, Arrays, State
from loadgen.kserve import HEAD_END, Head, MalformedResponse, ResponseChecker, decode_outputs, error_message
from loadgen.tcp import Address, TcpChannel, failed
from servemark.models import Tensor


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


class Connection(TcpChannel):
    """A channel: a socket with the request and the part of the response that are on their way."""

    __slots__ = ("_checker", "_head", "_received", "_unsent")

    def __init__(self, address: Address, checker: ResponseChecker) -> None:
        super().__init__(address)
        self._checker = checker
        self._unsent: memoryview | None = None
        self._received = bytearray()
        self._head: Head | None = None

    def request(self, made: Any) -> bytes:
        """What goes out for a payload's request: here the same bytes."""
        whole: bytes = made
        return whole

    def start(self) -> None:
        """Send the payload; where the socket takes only a part, it must become writable first."""
        assert self.payload is not None
        request = self.request(self.payload.request)
        self.state = State.BUSY
        try:
            count = self._socket.send(request)
        except BlockingIOError:
            count = 0
        except OSError as error:
            raise failed(error.errno) from error
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
            raise failed(error.errno) from error
        if not self._unsent:
            self._unsent = None
            self.wants = READ

    def readable(self) -> Answer | None:
        """Take what has come; the response once it is complete. Raises ConnectionFailed, MalformedResponse."""
        data = self._receive()
        if data is None:
            return None
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
        """A server has nothing to say on an idle connection but what TLS keeps to itself; it may close it, too."""
        return self._receive() is None

    def close(self) -> None:
        """Close the socket and forget what was on its way."""
        super().close()
        self._unsent = None
        self._head = None
        self._received = bytearray()
