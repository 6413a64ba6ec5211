"""A channel without a network: what a server says comes in pieces, and ends."""

import random
import re
import socket
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from loadgen.sut.channel import Answer, Channel, ConnectionFailed, Payload, State
from loadgen.sut.kernel_clock import KernelClock, Receive, Stamped, receiver_in_python
from loadgen.transport.tcp import MAX_RECEIVE_BYTES, Address
from servemark.workload import Arrays, Tensor

MAX_SENT = 1 << 20
MAX_SINGLE = 512
"""Longer answers do not come byte by byte: the whole of a header is looked at again for each."""
KINDS = re.compile(
    r"connection_closed|too_large|malformed_response|missing_output|wrong_(datatype|shape|size|model|version)|"
    r"http_[1-9]\d\d|grpc_status_(\d{1,3}|other)|grpc_stream_error|grpc_[a-z_]+"
)
"""Kinds that a failed answer may be counted as (docs/explanation/metrics.md, "Failures")."""


class Wire:
    """The socket of a channel. The server takes all that is sent, and closes when it has said everything."""

    family = socket.AF_INET

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._over = False
        self._sent = 0

    def say(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def end(self) -> None:
        self._over = True

    @property
    def silent(self) -> bool:
        """True once everything has been received."""
        return not self._pieces

    def take(self, most: int) -> tuple[bytes, int]:
        return self._received(most), 0

    def receiver(self, clock: KernelClock, channel: Stamped) -> Receive:
        return receiver_in_python(self.take, clock, channel)

    def ask_for_stamps(self, _: int = 0) -> bool:
        return True

    def sending_stamp(self) -> int:
        raise BlockingIOError

    def _received(self, most: int) -> bytes:
        assert 0 < most <= MAX_RECEIVE_BYTES
        if not self._pieces:
            if self._over:
                return b""
            raise BlockingIOError
        piece = self._pieces.popleft()
        if len(piece) > most:
            self._pieces.appendleft(piece[most:])
        return piece[:most]

    def send(self, data: bytes) -> int:
        self._sent += len(data)
        assert self._sent < MAX_SENT
        return len(data)

    def sendmsg(self, buffers: Sequence[bytes]) -> int:
        return sum(map(self.send, buffers))

    def setblocking(self, _: bool) -> None:
        pass

    def setsockopt(self, *_: int) -> None:
        pass

    def getsockopt(self, *_: int) -> int:
        return 0

    def connect_ex(self, _: object) -> int:
        return 0

    def fileno(self) -> int:
        return 99

    def handshake(self) -> int:
        return 0

    def close(self) -> None:
        pass


class Said(NamedTuple):
    """Outcome of a request: its kind of failure, None if the answer is right; and the answer if there is one."""

    kind: str | None
    answer: Answer | None


Opens = Callable[[Address], Channel]


def converse(opens: Opens, request: bytes, said: Sequence[bytes], golden: tuple[int, ...] = ()) -> list[Said]:
    """Send a request, and a next one after each answer, until the server has said these pieces and closes.

    The outcomes, as the driver counts them: the last request has none where the connection may carry no more.
    """
    wire = Wire()
    channel = opens(Address(socket.AF_INET, ("127.0.0.1", 1), lambda *_: wire))  # type: ignore[arg-type]
    outcomes: list[Said] = []
    try:
        channel.open()
        channel.connected()
        for piece in [*said, None]:
            if piece is None:
                wire.end()
            else:
                wire.say(piece)
            while True:
                if channel.state is State.IDLE:
                    if outcomes and not wire.silent and not channel.on_unsolicited_data():
                        return outcomes
                    channel.payload = Payload(request, golden)
                    channel.start()
                answer = channel.readable()
                if answer is not None:
                    outcomes.append(Said(answer.error, answer))
                if channel.state is State.SPENT or (piece is None and answer is None):
                    return outcomes
                if answer is None and wire.silent:
                    break
    except ConnectionFailed as failure:
        if not (outcomes and channel.state is State.IDLE):
            outcomes.append(Said(failure.kind, None))
        return outcomes
    finally:
        channel.close()
    return outcomes


def cuts(data: bytes) -> Iterator[list[bytes]]:
    """Ways in which the same bytes may arrive: at once, in two to nine pieces, and short ones byte by byte."""
    yield [data]
    rng = random.Random(zlib.crc32(data))  # noqa: S311 - the same file breaks in the same way
    at = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(1, 8)))
    yield [data[first:last] for first, last in zip([0, *at], [*at, len(data)], strict=True) if first < last]
    if len(data) <= MAX_SINGLE:
        yield [data[index : index + 1] for index in range(len(data))]


def check_conversation(
    opens: Opens, request: bytes, outputs: Sequence[Tensor], data: bytes, golden: tuple[int, ...] = ()
) -> Said:
    """Check the rules for all bytes of a server: cutting them changes no answer. Return the first outcome."""
    whole: Said | None = None
    for said in cuts(data):
        outcomes = converse(opens, request, said, golden)
        for kind, answer in outcomes:
            assert kind is None or KINDS.fullmatch(kind), kind
            if answer is not None:
                assert kind is None or isinstance(answer.message(), str)
                if kind is None:
                    arrays_of(answer, outputs)
        first = outcomes[0]
        if whole is None:
            whole = first
        elif whole.answer is not None:
            assert first.answer is not None
            assert (first.kind, first.answer.size) == (whole.kind, whole.answer.size)
    assert whole is not None
    return whole


def arrays_of(answer: Answer, outputs: Sequence[Tensor]) -> Arrays | None:
    """The arrays of an answer that was judged right, which they must prove; None where it has other values in JSON."""
    try:
        arrays = answer.arrays(outputs)
    except ValueError as error:
        if not re.search(r" is not (of )?(BOOL|U?INT)", str(error)):
            raise
        return None
    for tensor in outputs:
        array = arrays[tensor.name]
        assert array.dtype == tensor.dtype
        assert tensor.fits(array.shape[1:])
    return arrays
