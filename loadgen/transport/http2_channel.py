"""An HTTP/2 connection (RFC 9113) below a channel: one stream at a time, and whatever else the server says."""

import struct
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import ClassVar

from loadgen.sut.channel import READ, WRITE, ConnectionFailed, State
from loadgen.transport.limits import MAX_HEAD_BYTES, MAX_UNSENT_FRAMES, MalformedResponse
from loadgen.transport.tcp import Address, TcpChannel, failed

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM = ACK = 0x01
END_HEADERS, PADDED, PRIORITY = 0x04, 0x08, 0x20

CANCEL = (8).to_bytes(4, "big")
"""RST_STREAM's code of a request that nobody waits for any more (RFC 9113, section 7)."""

HEAD_BYTES = 9
DEFAULT_WINDOW = 65535
DEFAULT_FRAME = 16384
MAX_WINDOW_SIZE = MAX_STREAM_ID = (1 << 31) - 1
RECEIVED_FRAME = 1 << 20
"""The longest frame that we take; fewer and longer frames cost less."""

_HEADER_TABLE_SIZE, _ENABLE_PUSH, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 1, 2, 4, 5
_BUFFERS = 512
"""Most pieces handed to the operating system at once (Linux takes 1024)."""
_AHEAD = 1 << 20
"""Most bytes of a message laid out in frames ahead of the socket."""
_PASSED_OVER = 1 << 8
"""Beside the flags of a header block: it is of a cancelled stream."""
_SIZES = {RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
"""Frames of one size (RFC 9113, sections 6.4, 6.7 and 6.9)."""

unpack_head = struct.Struct(">IBI").unpack_from
"""(length << 8 | kind, flags, stream) of the 9 bytes at an offset."""
_SETTING = struct.Struct(">HI")


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    """Lay out one frame."""
    return struct.pack(">IBI", len(body) << 8 | kind, flags, stream) + body


def window_update(stream: int, increment: int) -> bytes:
    """Allow the peer to send this number of further bytes; stream 0 is the whole connection."""
    return frame(WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def settings(values: Mapping[int, int]) -> bytes:
    """Lay out a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*item) for item in values.items()))


def read_settings(body: bytes) -> dict[int, int]:
    """Read a SETTINGS frame's body. Raises MalformedResponse."""
    if len(body) % _SETTING.size:
        raise MalformedResponse(f"a SETTINGS frame of {len(body)} bytes")
    found = dict(_SETTING.iter_unpack(body))
    if not DEFAULT_FRAME <= found.get(MAX_FRAME_SIZE, DEFAULT_FRAME) < 1 << 24:
        raise MalformedResponse(f"a maximum frame size of {found[MAX_FRAME_SIZE]}")
    if found.get(INITIAL_WINDOW_SIZE, 0) > MAX_WINDOW_SIZE:
        raise MalformedResponse(f"an initial window of {found[INITIAL_WINDOW_SIZE]}")
    return found


# No dynamic table for the server's header blocks: equal bytes mean equal fields, whatever came before. Windows as large
# as can be: the load generator takes all responses at once and never wants to slow the server down.
PREFACE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + settings(
        {_HEADER_TABLE_SIZE: 0, _ENABLE_PUSH: 0, INITIAL_WINDOW_SIZE: MAX_WINDOW_SIZE, MAX_FRAME_SIZE: RECEIVED_FRAME}
    )
    + window_update(0, MAX_WINDOW_SIZE - DEFAULT_WINDOW)
)
"""First bytes that a client sends."""


class Http2Channel(TcpChannel):
    """The transport: a subclass sends with `_send_data`, and learns through `_on_headers`, `_on_data` and `_on_reset`.

    Requests go out on odd streams, one after the other. Whole frames wait in `_unsent`; what a window holds back of a
    message waits in `_left`. Every frame that the server may send is understood; one that it may not send raises
    MalformedResponse. The server gets its window back after `REFILL_BYTES`.
    """

    __slots__ = (
        "_block", "_block_flags", "_cancelled", "_consumed", "_data_flags", "_data_left", "_frame", "_goaway",
        "_greeted", "_initial", "_last_flag", "_left", "_rest", "_stream", "_stream_window", "_unsent", "_window",
    )  # fmt: skip

    REFILL_BYTES: ClassVar[int] = 1 << 29

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._forget()

    def _forget(self) -> None:
        """Everything as on a new connection."""
        self._stream = -1
        self._frame = DEFAULT_FRAME
        self._window = self._initial = self._stream_window = DEFAULT_WINDOW
        self._left = memoryview(b"")
        self._last_flag = 0
        self._unsent: deque[bytes | memoryview] = deque()
        self._goaway = ""
        self._greeted = False
        self._rest = b""
        self._data_left = self._data_flags = 0
        self._block = bytearray()
        self._block_flags = 0
        self._consumed = 0
        self._cancelled = 0
        """The last stream that was cancelled: what comes on it, or on one before, is late."""

    def connected(self) -> None:
        """Say the preface; requests need not wait for the server's. Raises ConnectionFailed."""
        super().connected()
        if self.state is State.CONNECTING:
            return
        self._unsent.append(PREFACE)
        self._advance()
        # The server's settings may have come with the end of the TLS handshake: epoll says no more of them.
        self.on_unsolicited_data()

    def writable(self) -> None:
        self._advance()

    def close(self) -> None:
        super().close()
        self._forget()

    def _send_data(self, head: bytes, message: bytes, last_flag: int) -> None:
        """Send header frames and a message as DATA, as far as windows and socket allow; the rest follows by itself."""
        size = len(message)
        if size > self._frame or size > self._window or size > self._stream_window or self._unsent:
            if head:
                self._unsent.append(head)
            self._left = memoryview(message)
            self._last_flag = last_flag
            self._advance()
            return
        self._window -= size
        self._stream_window -= size
        stream = self._stream.to_bytes(4, "big")
        self._send_whole(b"".join((head, size.to_bytes(3, "big"), b"\0\1" if last_flag else b"\0\0", stream, message)))

    def _send_whole(self, data: bytes) -> None:
        """Send frames of which none waits; what the socket does not take waits."""
        try:
            count = self._socket.send(data)
        except BlockingIOError:
            count = 0
        except OSError as error:
            raise failed(error.errno) from error
        if count < len(data):
            self._unsent.append(memoryview(data)[count:])
            self.wants = READ | WRITE

    def _advance(self) -> None:
        """Send what is waiting, as far as the windows and the socket allow."""
        while True:
            if self._unsent and not self._flush():
                self.wants = READ | WRITE
                return
            size = min(len(self._left), self._window, self._stream_window, _AHEAD)
            if size <= 0:
                # Done, or the server has to open a window first.
                self.wants = READ
                return
            self._window -= size
            self._stream_window -= size
            while size:
                piece = self._left[: min(size, self._frame)]
                self._left = self._left[len(piece) :]
                size -= len(piece)
                head = frame(DATA, 0 if self._left else self._last_flag, self._stream)
                self._unsent += (len(piece).to_bytes(3, "big") + head[3:], piece)

    def _flush(self) -> bool:
        """Hand laid out frames to the socket; False where it takes no more."""
        while self._unsent:
            try:
                count = self._socket.sendmsg([piece for piece, _ in zip(self._unsent, range(_BUFFERS), strict=False)])
            except BlockingIOError:
                return False
            except OSError as error:
                raise failed(error.errno) from error
            while count and count >= len(self._unsent[0]):
                count -= len(self._unsent.popleft())
            if count:
                self._unsent[0] = memoryview(self._unsent[0])[count:]
        return True

    def on_unsolicited_data(self) -> bool:
        """Take settings, pings and windows; False once the server wants no more requests here."""
        data = self._receive()
        if data is not None:
            self._take(data)
            self._advance()
        return not self._goaway

    def _cancel_stream(self) -> bool:
        """Cancel the current stream; False where parts of frames are on their way, so that only closing is left."""
        if self._unsent or self._left or self._rest or self._data_left or self._block_flags:
            return False
        self._cancelled, self._stream = self._stream, -1
        try:
            self._send_whole(frame(RST_STREAM, 0, self._cancelled, CANCEL))
        except ConnectionFailed:
            return False
        return not self._unsent

    def _take(self, data: bytes) -> None:
        """Handle the frames in what has come; a part of one is kept."""
        if self._rest:
            data = self._rest + data
            self._rest = b""
        position, end = 0, len(data)
        if self._data_left:
            position = min(self._data_left, end)
            self._data_left -= position
            self._on_data(data[:position], 0 if self._data_left else self._data_flags)
        while end - position >= HEAD_BYTES:
            word, flags, stream = unpack_head(data, position)
            body = position + HEAD_BYTES
            stop = body + (word >> 8)
            kind = word & 0xFF
            if kind == DATA and stream == self._stream and not flags & PADDED:
                self._consumed += stop - body
                if stop > end:
                    # A part of a long frame is taken at once, rather than copied until all of it is there.
                    self._data_left, self._data_flags = stop - end, flags
                    flags = 0
                    stop = end
                self._on_data(data[body:stop], flags)
            elif (
                kind == HEADERS
                and flags & END_HEADERS
                and stop <= end
                and stream == self._stream
                and flags < PADDED
                and self._greeted
            ):
                self._on_headers(data[body:stop], flags)
            else:
                self._check(kind, stop - body, data)
                if stop > end:
                    break
                self._other(kind, flags, stream, data[body:stop])
            position = stop
        self._rest = data[position:]
        if self._consumed >= self.REFILL_BYTES:
            self._refill()

    def _check(self, kind: int, size: int, data: bytes) -> None:
        """Detect early a server that does not speak HTTP/2. Raises MalformedResponse."""
        if not self._greeted and kind != SETTINGS:
            raise MalformedResponse(f"no HTTP/2 server: it begins with {data[:40]!r}")
        if size > (RECEIVED_FRAME if kind == DATA else MAX_HEAD_BYTES):
            raise MalformedResponse(f"a frame of kind {kind} and {size} bytes, longer than may be")
        if size != _SIZES.get(kind, size):
            raise MalformedResponse(f"a frame of kind {kind} and {size} bytes")

    def _other(self, kind: int, flags: int, stream: int, body: bytes) -> None:
        """Handle what is not in every response. Raises MalformedResponse, ConnectionFailed."""
        if bool(self._block_flags) != (kind == CONTINUATION):
            raise MalformedResponse(f"a frame of kind {kind} inside or outside of a header block")
        if kind == CONTINUATION:
            self._continue(flags, body)
        elif 0 < stream <= self._cancelled:
            self._late(kind, flags, body)
        elif kind in {DATA, HEADERS}:
            self._padded(kind, flags, stream, body)
        elif kind == SETTINGS:
            self._settings(flags, body)
        elif kind == PING:
            if not flags & ACK:
                self._reply(frame(PING, ACK, 0, body[:8]))
        elif kind == WINDOW_UPDATE:
            self._open_window(stream, int.from_bytes(body, "big") & MAX_WINDOW_SIZE)
        elif kind == RST_STREAM:
            if stream == self._stream:
                self._on_reset(int.from_bytes(body, "big"))
        elif kind == GOAWAY:
            self._go_away(body)
        elif kind == PUSH_PROMISE:
            raise MalformedResponse("a pushed response, which was forbidden")

    def _late(self, kind: int, flags: int, body: bytes) -> None:
        """Pass over a frame that the server sent before it knew that its stream was cancelled."""
        if kind == DATA:
            self._consumed += len(body)
        elif kind == HEADERS and not flags & END_HEADERS:
            self._block, self._block_flags = bytearray(), END_HEADERS | _PASSED_OVER

    def _padded(self, kind: int, flags: int, stream: int, body: bytes) -> None:
        """Unwrap DATA and HEADERS frames with padding or a priority, and the first part of a long header block."""
        if stream != self._stream:
            raise MalformedResponse(f"a response on stream {stream}, the request was on {self._stream}")
        first, last = 0, len(body)
        if flags & PADDED:
            first, last = 1, last - body[0] if body else 0
        if kind == HEADERS and flags & PRIORITY:
            first += 5
        if first > last:
            raise MalformedResponse("a frame that is all padding")
        if kind == DATA:
            self._consumed += len(body)
            self._on_data(body[first:last], flags)
        elif flags & END_HEADERS:
            self._on_headers(body[first:last], flags)
        else:
            self._block = bytearray(body[first:last])
            self._block_flags = flags | END_HEADERS

    def _continue(self, flags: int, body: bytes) -> None:
        self._block += body
        if len(self._block) > MAX_HEAD_BYTES:
            raise MalformedResponse("an endless header block")
        if flags & END_HEADERS:
            block, block_flags = bytes(self._block), self._block_flags
            self._block_flags = 0
            if not block_flags & _PASSED_OVER:
                self._on_headers(block, block_flags)

    def _settings(self, flags: int, body: bytes) -> None:
        if flags & ACK:
            return
        self._greeted = True
        found = read_settings(body)
        self._frame = found.get(MAX_FRAME_SIZE, self._frame)
        initial = found.get(INITIAL_WINDOW_SIZE, self._initial)
        # It holds for open streams too, whose window may become negative (RFC 9113, section 6.9.2).
        self._stream_window += initial - self._initial
        self._initial = initial
        self._reply(frame(SETTINGS, ACK, 0))

    def _reply(self, reply: bytes) -> None:
        """Answer a frame, unless too many answers wait already. Raises MalformedResponse."""
        if len(self._unsent) >= MAX_UNSENT_FRAMES:
            raise MalformedResponse("a server that asks on and reads nothing")
        self._unsent.append(reply)

    def _open_window(self, stream: int, increment: int) -> None:
        if stream == 0:
            self._window += increment
        elif stream == self._stream:
            self._stream_window += increment
        if self._window > MAX_WINDOW_SIZE or self._stream_window > MAX_WINDOW_SIZE or not increment:
            raise MalformedResponse(f"a window is opened by {increment} bytes")

    def _go_away(self, body: bytes) -> None:
        last, code = int.from_bytes(body[:4], "big") & MAX_WINDOW_SIZE, int.from_bytes(body[4:8], "big")
        self._goaway = f"the server ends the connection (GOAWAY {code}) {body[8:208].decode(errors='replace')}".rstrip()
        if self.state is State.BUSY and last < self._stream:
            raise ConnectionFailed("connection_closed", self._goaway)

    def _refill(self) -> None:
        """Let the server send on, long before its window is used up."""
        self._unsent.append(window_update(0, self._consumed))
        self._consumed = 0

    @abstractmethod
    def _on_headers(self, block: bytes, flags: int) -> None:
        """Take a complete header block of the current stream."""

    @abstractmethod
    def _on_data(self, piece: bytes, flags: int) -> None:
        """Take a piece of the current stream's data."""

    @abstractmethod
    def _on_reset(self, code: int) -> None:
        """Take the end of the current stream by RST_STREAM."""
