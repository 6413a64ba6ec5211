"""The sending half of an HTTP/2 connection: messages into DATA frames, as fast as windows and socket allow."""

from collections import deque

from loadgen.sut.channel import READ, WRITE
from loadgen.transport.http2_frames import DATA, DEFAULT_FRAME, DEFAULT_WINDOW, frame
from loadgen.transport.tcp import Address, TcpChannel, failed

_BUFFERS = 512
"""Most pieces handed to the operating system at once (Linux takes 1024)."""
_AHEAD = 1 << 20
"""Most bytes of a message laid out in frames ahead of the socket."""


class Http2Sender(TcpChannel):
    """Whole frames wait in `_unsent`; what a window holds back of a message waits in `_left`."""

    __slots__ = ("_frame", "_initial", "_last_flag", "_left", "_stream", "_stream_window", "_unsent", "_window")

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

    def writable(self) -> None:
        self._advance()

    def close(self) -> None:
        """Close the socket and forget what was in flight."""
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
