"""One gRPC connection that never blocks and carries at most one call at a time (gRPC over HTTP/2).

grpcio spends more on a call than everything else that the load generator does for a request, and its threads wait for
each other under gevent. This speaks the same bytes over the driver's own sockets.
Source: grpc/grpc, doc/PROTOCOL-HTTP2.md.
"""

import re
from urllib.parse import unquote

from loadgen.kserve.grpc_call import PREFIX_BYTES, RESET_STATUS, Form, GrpcAnswer, Method, enclose, status_name
from loadgen.sut.channel import ConnectionFailed, State
from loadgen.transport.http2_channel import (
    END_HEADERS,
    END_STREAM,
    HEADERS,
    MAX_STREAM_ID,
    Http2Channel,
    frame,
    window_update,
)
from loadgen.transport.limits import GZIP, MAX_REMEMBERED, MalformedResponse, TooLarge, decompress
from loadgen.transport.tcp import Address

_IDLE, _BUSY, _SPENT = State.IDLE, State.BUSY, State.SPENT  # see loadgen/driver/event_loop.py


class GrpcConnection(Http2Channel):
    """A channel of unary calls; a payload's request is an enclosed message."""

    __slots__ = ("_answer", "_fields", "_have", "_head", "_method", "_next", "_pieces", "_stream_id")

    def __init__(self, address: Address, method: Method) -> None:
        self._method = method
        head = frame(HEADERS, END_HEADERS, 0, method.block)
        # The stream goes between the two, and once more into the head of the DATA frame.
        self._head = head[:5], head[9:]
        super().__init__(address)

    def _forget(self) -> None:
        super()._forget()
        self._next = 1
        self._stream_id = b""
        self._answer: GrpcAnswer | None = None
        self._fields: dict[str, str] | None = None
        self._pieces: list[bytes] = []
        self._have = 0

    def start(self) -> None:
        assert self.payload is not None
        self.state = _BUSY
        request: bytes = self.payload.request
        size, head = len(request), self._open_stream()
        if size > self._frame or size > self._window or size > self._stream_window or self._unsent:
            self._send_data(head, request, END_STREAM)
        else:
            self._window -= size
            self._stream_window -= size
            self._send_whole(b"".join((head, size.to_bytes(3, "big"), b"\0\1", self._stream_id, request)))

    def _open_stream(self) -> bytes:
        """The bytes that open the next stream."""
        self._stream = self._next
        self._stream_id = self._stream.to_bytes(4, "big")
        self._next += 2
        self._stream_window = self._initial
        self._fields = None
        first, rest = self._head
        return b"".join((first, self._stream_id, rest))

    def cancel(self) -> bool:
        """Reset the call's stream; the connection can carry the next one."""
        if not self._cancel_stream():
            return False
        self._answer = self._fields = None
        self._pieces, self._have = [], 0
        self.state = _IDLE
        return self._reusable

    @property
    def answer_begun(self) -> bool:
        """Return True if the header block of an answer has come: settings come before it."""
        return self._fields is not None

    def readable(self) -> GrpcAnswer | None:
        data = self._receive()
        if data is None:
            return None
        fresh = self._fields is None and not self._rest
        form = self._method.forms.get(len(data)) if fresh else None
        if form is not None and form.fits(data, self._stream_id):
            return self._usual(data, form)
        self._take(data)
        if self._unsent or self._left:
            self._advance()
        answer = self._answer
        if answer is not None:
            if fresh and answer.error is None:
                self._remember(data, answer.body)
            self._answer = None
            self.state = _IDLE if self._reusable else _SPENT
        return answer

    def _usual(self, data: bytes, form: Form) -> GrpcAnswer:
        """Take a response of a known form."""
        self.done = self.came
        body = data[form.first : form.last]
        if form.window:
            self._open_window(0, form.window)
        self._consumed += len(body)
        if self._consumed >= self.REFILL_BYTES:
            self._refill()
            self._advance()
        error = None if form.start else self._method.judge(body)
        self.state = _IDLE if self._reusable else _SPENT
        # What GrpcAnswer() does, without the call of a Python function.
        return tuple.__new__(GrpcAnswer, (body, error, "", self._method))

    def _remember(self, data: bytes, body: bytes) -> None:
        """Keep the form of a right response, if it is a usual one."""
        method = self._method
        if len(method.forms) >= MAX_REMEMBERED:
            return
        form = Form.of(data, self._stream, method.reader.usual_start(body))
        # The form of a compressed answer would be that of other bytes.
        if form is not None and form.short and data[form.first : form.last] == body:
            method.forms[len(data)] = form

    @property
    def _reusable(self) -> bool:
        """An answer before the whole request is out leaves a connection that cannot carry the next one."""
        return not (self._unsent or self._left or self._goaway) and self._next < MAX_STREAM_ID

    def _on_headers(self, block: bytes, flags: int) -> None:
        fields = self._method.decoder.decode(block)
        if flags & END_STREAM:
            self._on_end(fields)
        else:
            self._fields = fields

    def _on_data(self, piece: bytes, flags: int) -> None:
        self._keep(piece)
        if flags & END_STREAM:
            self._on_end({})

    def _keep(self, piece: bytes) -> None:
        """Hold a part of the answer. Raises MalformedResponse, TooLarge."""
        if self.state is not _BUSY or self._answer is not None:
            raise MalformedResponse("data for no request")
        self._pieces.append(piece)
        self._have += len(piece)
        if self._have > self._method.max_bytes:
            raise TooLarge(self._have, self._method.max_bytes)

    def _on_reset(self, code: int) -> None:
        error = f"grpc_{RESET_STATUS.get(code, 'internal')}"
        self._complete(b"", error, f"the server reset the stream (RST_STREAM {code})")

    def _on_end(self, trailers: dict[str, str]) -> None:
        status = trailers.get("grpc-status")
        if status == "0":
            self._complete(self._message(), None)
        elif status is None:
            self._complete(b"".join(self._pieces), *self._without_status(trailers))
        else:
            self._complete(b"", f"grpc_{status_name(status)}", unquote(trailers.get("grpc-message", "")))

    def _complete(self, body: bytes, error: str | None, status_message: str = "") -> None:
        """The call has its answer."""
        if self.state is not State.BUSY or self._answer is not None:
            raise MalformedResponse("an answer to no request")
        self.done = self.came
        if self._pieces:
            self._pieces = []
            self._have = 0
        if error is None:
            error = self._method.judge(body)
        self._answer = GrpcAnswer(body, error, status_message, self._method)

    def _message(self) -> bytes:
        """The one message that a call is answered with, still enclosed. Raises MalformedResponse."""
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        size = len(body) - PREFIX_BYTES
        # The first byte says whether it is compressed.
        if size < 0 or int.from_bytes(body[:PREFIX_BYTES], "big") != size:
            return self._unpacked(body)
        return body

    def _unpacked(self, body: bytes) -> bytes:
        """Return an enclosed message that came as a gzip. Raises ConnectionFailed."""
        volume, size = self._method.volume, len(body) - PREFIX_BYTES
        if size < 0 or body[0] != 1 or int.from_bytes(body[1:PREFIX_BYTES], "big") != size:
            raise MalformedResponse(f"{len(body)} bytes that are not one message")
        if volume is None or (self._fields or {}).get("grpc-encoding") != GZIP:
            raise MalformedResponse("a compressed message, which was not asked for (--response-compression gzip)")
        plain = decompress(body[PREFIX_BYTES:], self._method.max_bytes)
        volume.answer(size, len(plain))
        return enclose(plain)

    def _without_status(self, trailers: dict[str, str]) -> tuple[str, str]:
        """Classify an answer without grpc-status, perhaps from a proxy. Raises MalformedResponse."""
        fields = self._fields or trailers
        status = fields.get(":status", "")
        if status == "200" or not re.fullmatch("[1-9][0-9][0-9]", status):
            raise MalformedResponse(f"an answer without grpc-status, content-type {fields.get('content-type')!r}")
        words = b"".join(self._pieces)[:200].decode(errors="replace")
        return f"http_{status}", f"HTTP {status}: {words or 'no message'}"


class GrpcStream(GrpcConnection):
    """A channel whose requests are the messages of one long call, each answered by one message."""

    __slots__ = ("_ended",)

    def _forget(self) -> None:
        super()._forget()
        self._ended = False

    def start(self) -> None:
        """Send the payload on the stream, which the first one opens."""
        assert self.payload is not None
        self.state = State.BUSY
        self._send_data(self._open_stream() if self._stream < 0 else b"", self.payload.request, 0)

    def cancel(self) -> bool:
        """A reset would end the call of all requests."""
        return False

    def on_unsolicited_data(self) -> bool:
        """Take settings, pings and windows; False once the server has ended the stream or the connection."""
        return super().on_unsolicited_data() and not self._ended

    @property
    def _reusable(self) -> bool:
        return not self._ended and super()._reusable

    def _on_data(self, piece: bytes, flags: int) -> None:
        if piece:  # a server may end the stream with a frame that holds nothing
            self._keep(piece)
        if self._have >= PREFIX_BYTES:
            if len(self._pieces[0]) < PREFIX_BYTES:
                self._pieces = [b"".join(self._pieces)]
            if self._have >= PREFIX_BYTES + int.from_bytes(self._pieces[0][1:PREFIX_BYTES], "big"):
                self._complete(self._message(), None)
        if flags & END_STREAM:
            self._on_end({})

    def _remember(self, data: bytes, body: bytes) -> None:
        """Nothing: an answer on the stream is one frame as it is."""

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
