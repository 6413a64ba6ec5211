"""One gRPC connection that never blocks and carries at most one call at a time (gRPC over HTTP/2).

grpcio spends more on a call than everything else that the load generator does for a request, and its threads wait for
each other under gevent. This speaks the same bytes over the driver's own sockets.
Source: grpc/grpc, doc/PROTOCOL-HTTP2.md.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from loadgen.channel import Arrays, ConnectionFailed, State
from loadgen.http2 import (
    END_HEADERS,
    END_STREAM,
    HEADERS,
    LARGEST_STREAM,
    FieldDecoder,
    ProtocolViolation,
    encode_fields,
    frame,
    window_update,
)
from loadgen.http2_channel import Http2Channel
from loadgen.tcp import Address
from servemark.models import Tensor

PREFIX_BYTES = 5
STATUSES = (
    "ok", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists",
    "permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented",
    "internal", "unavailable", "data_loss", "unauthenticated",
)  # fmt: skip
"""gRPC's status codes by number."""
_RESET_STATUS = {7: "unavailable", 8: "cancelled", 11: "resource_exhausted", 12: "permission_denied"}
"""What gRPC makes of HTTP/2's error codes; all others are "internal"."""


def enclose(message: bytes) -> bytes:
    """A message as it travels: not compressed, its length before it."""
    return b"\0" + len(message).to_bytes(4, "big") + message


@dataclass(frozen=True)
class Method:
    """A method of a service on one server, and what judges its answers: shared by all connections that call it.

    `judge` gives the kind of error of a serialised answer, None where it is right; `decode` its output arrays, `words`
    what it says about its failure.
    """

    path: str
    authority: str
    judge: Callable[[bytes], str | None]
    decode: Callable[[bytes, Sequence[Tensor]], Arrays]
    words: Callable[[bytes], str]
    metadata: tuple[tuple[str, str], ...] = ()
    decoder: FieldDecoder = field(default_factory=FieldDecoder)

    def block(self) -> bytes:
        """The header block of every call."""
        fields = [(":method", "POST"), (":scheme", "http"), (":path", self.path), (":authority", self.authority)]
        return encode_fields([*fields, ("te", "trailers"), ("content-type", "application/grpc"), *self.metadata])


class GrpcAnswer(NamedTuple):
    """A complete answer: the message, or what the status says; `error` is its kind of failure."""

    body: bytes
    error: str | None
    status_message: str
    method: Method

    @property
    def size(self) -> int:
        """Bytes of the message."""
        return len(self.body)

    def message(self) -> str:
        """The server's own words about a failed call."""
        return self.status_message or self.method.words(self.body)

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:
        """The outputs."""
        return self.method.decode(self.body, outputs)


class GrpcConnection(Http2Channel):
    """A channel of unary calls; a payload's request is an enclosed message."""

    __slots__ = ("_answer", "_fields", "_head", "_method", "_next", "_pieces")

    def __init__(self, address: Address, method: Method) -> None:
        self._method = method
        head = frame(HEADERS, END_HEADERS, 0, method.block())
        # The stream goes between the two, and once more into the head of the DATA frame.
        self._head = head[:5], head[9:]
        super().__init__(address)

    def _forget(self) -> None:
        super()._forget()
        self._next = 1
        self._answer: GrpcAnswer | None = None
        self._fields: dict[str, str] | None = None
        self._pieces: list[bytes] = []

    def start(self) -> None:
        """Send the payload as a call of its own."""
        assert self.payload is not None
        self.state = State.BUSY
        self._send_data(self._open_stream(), self.payload.request, END_STREAM)

    def _open_stream(self) -> bytes:
        """The bytes that open the next stream."""
        self._stream = self._next
        self._next += 2
        self._stream_window = self._initial
        self._fields = None
        first, rest = self._head
        return first + self._stream.to_bytes(4, "big") + rest

    def readable(self) -> GrpcAnswer | None:
        """Take what has come; the answer once it is complete. Raises ConnectionFailed, ProtocolViolation."""
        data = self._receive()
        if data is None:
            return None
        self._take(data)
        if self._unsent or self._left:
            self._advance()
        answer = self._answer
        if answer is not None:
            self._answer = None
            self.state = State.IDLE if self._reusable else State.SPENT
        return answer

    @property
    def _reusable(self) -> bool:
        """An answer before the whole request is out leaves a connection that cannot carry the next one."""
        return self._all_sent and not self._goaway and self._next < LARGEST_STREAM

    def _on_headers(self, block: bytes, flags: int) -> None:
        fields = self._method.decoder.decode(block)
        if flags & END_STREAM:
            self._on_end(fields)
        else:
            self._fields = fields

    def _on_data(self, piece: bytes, flags: int) -> None:
        self._pieces.append(piece)
        if flags & END_STREAM:
            self._on_end({})

    def _on_reset(self, code: int) -> None:
        error = f"grpc_{_RESET_STATUS.get(code, 'internal')}"
        self._complete(b"", error, f"the server reset the stream (RST_STREAM {code})")

    def _on_end(self, trailers: dict[str, str]) -> None:
        status = trailers.get("grpc-status")
        if status == "0":
            self._complete(self._message(), None)
        elif status is None:
            self._complete(b"".join(self._pieces), *self._without_status(trailers))
        else:
            self._complete(b"", f"grpc_{_status_name(status)}", unquote(trailers.get("grpc-message", "")))

    def _complete(self, body: bytes, error: str | None, status_message: str = "") -> None:
        """The call has its answer."""
        if self.state is not State.BUSY or self._answer is not None:
            raise ProtocolViolation("an answer to no request")
        self.done = time.monotonic_ns()
        self._pieces = []
        if error is None:
            error = self._method.judge(body)
        self._answer = GrpcAnswer(body, error, status_message, self._method)

    def _message(self) -> bytes:
        """The one message that a call is answered with, still enclosed. Raises ProtocolViolation."""
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        size = len(body) - PREFIX_BYTES
        # The first byte says whether it is compressed, and we never said that it may be.
        if size < 0 or int.from_bytes(body[:PREFIX_BYTES], "big") != size:
            raise ProtocolViolation(f"{len(body)} bytes that are not one uncompressed message")
        return body

    def _without_status(self, trailers: dict[str, str]) -> tuple[str, str]:
        """What an answer without grpc-status is counted as: a proxy's own, perhaps. Raises ProtocolViolation."""
        fields = self._fields or trailers
        status = fields.get(":status", "")
        if status == "200" or not status.isdigit():
            raise ProtocolViolation(f"an answer without grpc-status, content-type {fields.get('content-type')!r}")
        words = b"".join(self._pieces)[:200].decode(errors="replace")
        return f"http_{status}", f"HTTP {status}: {words or 'no message'}"


class GrpcStream(GrpcConnection):
    """A channel whose requests are the messages of one long call, each answered by one message."""

    __slots__ = ("_ended", "_have")

    def _forget(self) -> None:
        super()._forget()
        self._ended = False
        self._have = 0

    def start(self) -> None:
        """Send the payload on the stream, which the first one opens."""
        assert self.payload is not None
        self.state = State.BUSY
        self._send_data(self._open_stream() if self._stream < 0 else b"", self.payload.request, 0)

    def unasked(self) -> bool:
        """Take settings, pings and windows; False once the server has ended the stream or the connection."""
        return super().unasked() and not self._ended

    @property
    def _reusable(self) -> bool:
        return not self._ended and super()._reusable

    def _on_data(self, piece: bytes, flags: int) -> None:
        self._pieces.append(piece)
        self._have += len(piece)
        if self._have >= PREFIX_BYTES:
            if len(self._pieces[0]) < PREFIX_BYTES:
                self._pieces = [b"".join(self._pieces)]
            if self._have >= PREFIX_BYTES + int.from_bytes(self._pieces[0][1:PREFIX_BYTES], "big"):
                self._have = 0
                self._complete(self._message(), None)
        if flags & END_STREAM:
            self._on_end({})

    def _on_end(self, trailers: dict[str, str]) -> None:
        self._ended = True
        if self.state is not State.BUSY or self._answer is not None:
            return
        if trailers.get("grpc-status") == "0":
            raise ConnectionFailed("connection_closed", "the server ended the stream before the response was complete")
        super()._on_end(trailers)

    def _on_reset(self, code: int) -> None:
        self._ended = True
        if self.state is State.BUSY and self._answer is None:
            super()._on_reset(code)

    def _refill(self) -> None:
        self._unsent.append(window_update(self._stream, self._consumed))
        super()._refill()


def _status_name(status: str) -> str:
    number = int(status) if status.isdecimal() else len(STATUSES)
    return STATUSES[number] if number < len(STATUSES) else f"status_{status}"
