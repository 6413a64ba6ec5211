"""One keep-alive HTTP connection that never blocks and carries at most one request at a time."""

from collections.abc import Sequence
from typing import NamedTuple

from loadgen.kserve.http_messages import ResponseChecker, error_message
from loadgen.sut.channel import READ, WRITE, Answer, State
from loadgen.transport.http1_head import HEAD_END, Chunks, Head
from loadgen.transport.limits import MAX_HEAD_BYTES, MalformedResponse
from loadgen.transport.tcp import Address, TcpChannel, failed
from servemark.workload import Arrays, Tensor


class Response(NamedTuple):
    """A complete response, whose body begins at `begin`; `error` is its kind of failure, None where it is right."""

    head: Head
    data: bytes
    begin: int
    error: str | None
    size: int
    checker: ResponseChecker

    @property
    def body(self) -> bytes:
        """The JSON header and the tensors: a copy, which only failed and sampled responses need."""
        return self.data[self.begin :]

    def message(self) -> str:
        return error_message(self.head, self.body)

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:
        return self.checker.decode(self.head, self.body, outputs)


class Usual(NamedTuple):
    """A good response: another one that is as long and begins with the same head and JSON header is as good.

    A server repeats itself, and comparing these bytes takes 0.1 µs where finding them and looking them up takes 1.5.
    """

    length: int
    start: bytes
    head: Head
    begin: int
    answer: Response
    """Without its data, for requests of whose answers nothing but times and size is asked."""


_IDLE, _BUSY, _SPENT = State.IDLE, State.BUSY, State.SPENT  # see loadgen/driver/event_loop.py
_NO_HEAD = Head(0, 0, None, keep_alive=False)
_NONE = Usual(-1, b"", _NO_HEAD, 0, Response(_NO_HEAD, b"", 0, None, 0, ResponseChecker((), 0)))


class Connection(TcpChannel):
    """A channel: a socket with the request in flight and the part of its response that has come."""

    __slots__ = ("_checker", "_chunks", "_missing", "_pieces", "_unsent", "_usual")

    def __init__(self, address: Address, checker: ResponseChecker) -> None:
        super().__init__(address)
        self._checker = checker
        self._unsent: memoryview | None = None
        self._pieces: list[bytes] = []
        self._missing = 0
        """Bytes of the response that have yet to come, as far as its head has told."""
        self._usual = _NONE
        self._chunks: tuple[Head, Chunks] | None = None
        """A response whose body comes in chunks."""

    def start(self) -> None:
        """Send the payload; where the socket takes only a part, it must become writable first."""
        assert self.payload is not None
        request: bytes = self.payload.request
        self.state = _BUSY
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

    @property
    def answer_begun(self) -> bool:
        """Return True if a part of an answer has come."""
        return bool(self._pieces)

    def readable(self) -> Answer | None:
        data = self._receive(self._missing)
        if data is None:
            return None
        if self._pieces:
            if self._chunks is not None:
                return self._take_chunks(*self._chunks, data)
            self._pieces.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return None
            data = b"".join(self._pieces)
        length, start, head, begin, answer = self._usual
        if len(data) == length and data.startswith(start):
            self.done = self.came
            if self._pieces:
                self._forget()
            self.state = _IDLE if self._unsent is None else _SPENT
            if self.payload.plain:  # type: ignore[union-attr]
                return answer
            # What Response() does, without the call of a Python function.
            return tuple.__new__(Response, (head, data, begin, None, length - begin, self._checker))
        return self._parse(data)

    def _parse(self, data: bytes) -> Answer | None:
        """Read what has come of a response unlike the last one; None until it is complete. Raises ConnectionFailed."""
        data, begin = self._skip_interim(data)
        if not begin:
            self._keep(data, 1)
            return None
        head = self._checker.head(data[: begin - len(HEAD_END)])
        if head.chunked:
            self._keep(data[:begin], 1)
            self._chunks = head, Chunks(self._checker.max_bytes)
            return self._take_chunks(*self._chunks, data[begin:])
        missing = begin + head.content_length - len(data)
        if missing > 0:
            self._keep(data, missing)
            return None
        if missing < 0:
            raise MalformedResponse(f"{-missing} bytes beyond the response's Content-Length")
        self.done = self.came
        return self._answer(head, data, begin, head.content_length)

    def _take_chunks(self, head: Head, chunks: Chunks, data: bytes) -> Answer | None:
        """Take what has come of a body in chunks; the response once it is complete. Raises ConnectionFailed."""
        if not chunks.take(data):
            return None
        self.done = self.came
        return self._answer(head, chunks.body, 0, chunks.size)

    def _answer(self, head: Head, data: bytes, begin: int, size: int) -> Answer:
        """Judge a complete response, whose body begins at `begin` and took `size` bytes. Raises ConnectionFailed."""
        if head.encoding:
            data, begin = self._checker.unpacked(head, data[begin:]), 0
        assert self.payload is not None
        judge = self._checker.judge if self.payload.plain else self._checker.judge_values
        error = judge(head, data[begin:])
        answer = Response(head, data, begin, error, size, self._checker)
        if error is None and head.json_length is not None and head.keep_alive and begin:
            sized = Response(head, b"", 0, None, size, self._checker)
            self._usual = Usual(len(data), data[: begin + head.json_length], head, begin, sized)
        if self._pieces:
            self._forget()
        # An answer before the whole request is out leaves a connection that cannot carry the next one.
        self.state = _IDLE if head.keep_alive and self._unsent is None else _SPENT
        return answer

    def _skip_interim(self, data: bytes) -> tuple[bytes, int]:
        """Drop interim responses; return the rest and the offset of its body, 0 while its head is incomplete."""
        while (end := data.find(HEAD_END)) >= 0:
            begin = end + len(HEAD_END)
            if not self._checker.head(data[:end]).interim:
                return data, begin
            data = data[begin:]
        if len(data) > MAX_HEAD_BYTES:
            raise MalformedResponse(f"a head of more than {MAX_HEAD_BYTES} bytes")
        return data, 0

    def _keep(self, data: bytes, missing: int) -> None:
        """Hold what has come until the rest is there."""
        self._pieces = [data]
        self._missing = missing

    def _forget(self) -> None:
        self._pieces = []
        self._missing = 0
        self._chunks = None

    def on_unsolicited_data(self) -> bool:
        """A server has nothing to say on an idle connection but what TLS keeps to itself; it may close it, too."""
        return self._receive() is None

    def close(self) -> None:
        super().close()
        self._unsent = None
        self._forget()
