"""State that all connections calling one gRPC method share: its header block, known answers and statuses."""

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from google.protobuf.message import DecodeError
from hpack import Decoder, Encoder, HPACKError, NeverIndexedHeaderTuple

from loadgen.kserve.http_messages import Asked
from loadgen.transport.access import HOST
from loadgen.transport.http2_channel import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEAD_BYTES,
    HEADERS,
    MAX_WINDOW_SIZE,
    WINDOW_UPDATE,
    unpack_head,
)
from loadgen.transport.limits import MAX_REMEMBERED, MAX_REMEMBERED_BYTES, MalformedResponse, compress
from servemark.figures.evidence import Volume
from servemark.protobuf import Fields, contents
from servemark.workload import Arrays, Tensor

PREFIX_BYTES = 5
STREAM_BYTES = 4
STATUSES = (
    "ok", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists",
    "permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented",
    "internal", "unavailable", "data_loss", "unauthenticated",
)  # fmt: skip
"""gRPC's status codes by number."""
UNIMPLEMENTED = "grpc_unimplemented"
"""Kind of failure of a call whose method the server does not have."""
RESET_STATUS = {7: "unavailable", 8: "cancelled", 11: "resource_exhausted", 12: "permission_denied"}
"""gRPC statuses of HTTP/2's error codes; all other codes are "internal"."""
_MOST_PARTS = 64
"""An answer of more contents is parsed each time, which is faster."""


def enclose(message: bytes) -> bytes:
    """A message as it travels: not compressed, its length before it."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def enclose_compressed(message: bytes, volume: Volume) -> bytes:
    """A message as it travels: a gzip, its length before it."""
    packed = compress(message)
    volume.request(len(message), len(packed))
    return b"\1" + len(packed).to_bytes(4, "big") + packed


def encode_fields(fields: Iterable[tuple[str, str]]) -> bytes:
    """Encode a header block that neither needs nor changes the dynamic table: the same bytes for every request."""
    return bytes(Encoder().encode([NeverIndexedHeaderTuple(*field) for field in fields], huffman=False))


class FieldDecoder:
    """Decodes a server's header blocks (HPACK, RFC 7541); each distinct one once, for a server repeats itself."""

    def __init__(self) -> None:
        self._known: dict[bytes, dict[str, str]] = {}

    def decode(self, block: bytes) -> dict[str, str]:
        """The fields of a block. Raises MalformedResponse."""
        known = self._known.get(block)
        if known is None:
            decoder = Decoder()
            decoder.header_table_size = decoder.max_allowed_table_size = 0
            try:
                known = {str(name): str(value) for name, value in decoder.decode(block)}
            except HPACKError as error:
                raise MalformedResponse(f"a header block that cannot be decoded: {error}") from error
            if len(self._known) < MAX_REMEMBERED and len(block) <= MAX_REMEMBERED_BYTES:
                self._known[block] = known
        return known


@dataclass
class MessageReader:
    """Checks and decodes every answer to one method; here nothing but the status of a call is looked at.

    A server repeats itself: two good answers of one length differ only in the contents of their tensors. What lies
    around the contents is compared with a good answer of that length; only where it differs the answer is parsed.
    """

    outputs: Sequence[Tensor]
    batch_size: int
    asked: Asked | None = None
    """None: answers of any model are taken."""
    contents_at: Fields = field(default_factory=dict, kw_only=True)
    """The fields that hold the tensors' contents; empty: each answer is parsed."""
    _good: dict[int, tuple[bytes, list[tuple[int, bytes]]]] = field(default_factory=dict)
    """Length of a good answer -> what lies before its first tensor, and between and after them with the positions."""

    def judge(self, enclosed: bytes) -> str | None:
        """The kind of error of an answer, None where it is right."""
        known = self._good.get(len(enclosed))
        if known is not None and enclosed.startswith(known[0]):
            # A loop, not all(), which would cost more than the rest where there is only one output.
            for position, part in known[1]:
                if not enclosed.startswith(part, position):
                    break
            else:
                return None
        try:
            error = self._judge(enclosed)
        except (DecodeError, ValueError, OverflowError):
            return "malformed_response"
        if error is None and len(self._good) < MAX_REMEMBERED and self.contents_at:
            self._remember(enclosed)
        return error

    def _judge(self, _enclosed: bytes) -> str | None:
        """Parse an answer and judge it as `judge` does. Raises DecodeError, ValueError, OverflowError."""
        return None

    def decode(self, _enclosed: bytes, _outputs: Sequence[Tensor]) -> Arrays:
        """The output arrays of an answer that was judged right, each with the batch dimension."""
        return {}

    def usual_start(self, enclosed: bytes) -> bytes:
        """Return the beginning that makes another answer as long as this right one right; empty if more must fit."""
        start, others = self._good.get(len(enclosed), (b"", []))
        return start if not others and enclosed.startswith(start) else b""

    def error_message(self, _enclosed: bytes) -> str:
        """Return the error message of an answer: none, because a failed call has a status."""
        return ""

    def _remember(self, enclosed: bytes) -> None:
        try:
            found = contents(enclosed, self.contents_at, PREFIX_BYTES)
        except ValueError:
            return  # of another form
        size = len(enclosed) - sum(last - first for first, last in found)
        if 0 < len(found) <= _MOST_PARTS and size <= MAX_REMEMBERED_BYTES:
            self._good[len(enclosed)] = _around(enclosed, found)


def _around(enclosed: bytes, found: list[tuple[int, int]]) -> tuple[bytes, list[tuple[int, bytes]]]:
    """The bytes that are not contents: those before them, then each other piece with its position."""
    ends = [*(first for first, _ in found[1:]), len(enclosed)]
    parts = [(last, enclosed[last:end]) for (_, last), end in zip(found, ends, strict=True)]
    return enclosed[: found[0][0]], [(position, part) for position, part in parts if part]


@dataclass(frozen=True)
class Method:
    """A method of a service on one server, and what reads its answers: shared by all connections that call it."""

    path: str
    authority: str
    max_bytes: int
    """The longest message that is taken."""
    reader: MessageReader = field(default_factory=lambda: MessageReader((), 0))
    volume: Volume | None = None
    """Counts the answers that come compressed; None: no answer may."""
    scheme: str = "http"
    metadata: Sequence[tuple[str, str]] = ()
    decoder: FieldDecoder = field(default_factory=FieldDecoder)
    forms: dict[int, "Form"] = field(default_factory=dict)
    """The forms of right responses that came whole, by their length."""

    @functools.cached_property
    def judge(self) -> Callable[[bytes], str | None]:
        """Return what says the kind of error of an answer, once looked up for all calls."""
        return self.reader.judge

    @functools.cached_property
    def block(self) -> bytes:
        """The header block of every call; `host` among the metadata is its authority, as HTTP/2 names that."""
        given = dict(self.metadata)
        host = given.pop(HOST, self.authority)
        fields = [(":method", "POST"), (":scheme", self.scheme), (":path", self.path), (":authority", host)]
        return encode_fields([*fields, ("te", "trailers"), ("content-type", "application/grpc"), *given.items()])


class Form(NamedTuple):
    """A right response that came whole: HEADERS, one DATA frame, trailers, perhaps a window for the next request.

    Only its stream and the contents of its message change. A server repeats itself, and comparing bytes costs less than
    reading the frames.
    """

    before: bytes
    """Bytes before the stream's first place."""
    between: bytes
    """From there to its second place, the end of the DATA frame's head."""
    start: bytes
    """The message's, as MessageReader.usual_start says."""
    tail: bytes
    """Of the trailers the head before the stream."""
    end: bytes
    first: int
    """The enclosed message's first byte."""
    last: int
    window: int
    """Bytes that it lets us send."""

    @classmethod
    def of(cls, data: bytes, stream: int, start: bytes) -> "Form | None":
        """The form of a response on a stream, None where it has more or other frames."""
        heads, begins = [], [0]
        while begins[-1] + HEAD_BYTES <= len(data):
            word, flags, number = unpack_head(data, begins[-1])
            heads.append((word & 0xFF, flags, number))
            begins.append(begins[-1] + HEAD_BYTES + (word >> 8))
        usual = [(HEADERS, END_HEADERS, stream), (DATA, 0, stream), (HEADERS, END_HEADERS | END_STREAM, stream)]
        if heads not in (usual, [*usual, (WINDOW_UPDATE, 0, 0)]) or begins[-1] != len(data):
            return None
        first, last = begins[1] + HEAD_BYTES, begins[2]
        window = int.from_bytes(data[-STREAM_BYTES:], "big") & MAX_WINDOW_SIZE if len(heads) > len(usual) else 0
        # The stream is the last part of a frame's head.
        before, between = data[: HEAD_BYTES - STREAM_BYTES], data[HEAD_BYTES : first - STREAM_BYTES]
        tail, end = data[last : last + HEAD_BYTES - STREAM_BYTES], data[last + HEAD_BYTES :]
        return cls(before, between, start, tail, end, first, last, window)

    @property
    def short(self) -> bool:
        """Return True if the answer is short enough to be remembered."""
        return len(self.between) + len(self.start) + len(self.end) <= MAX_REMEMBERED_BYTES

    def fits(self, data: bytes, stream: bytes) -> bool:
        """Return True if a response of this length is of this form."""
        return data.startswith(b"".join((self.before, stream, self.between, stream, self.start))) and data.endswith(
            b"".join((self.tail, stream, self.end))
        )


class GrpcAnswer(NamedTuple):
    """A complete answer: the message, or what the status says; `error` is its kind of failure."""

    body: bytes
    error: str | None
    status_message: str
    method: Method

    @property
    def size(self) -> int:
        return len(self.body)

    def message(self) -> str:
        return self.status_message or self.method.reader.error_message(self.body)

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:
        return self.method.reader.decode(self.body, outputs)


def status_name(status: str) -> str:
    """The name of a status code as it travels; a number that gRPC does not know stays one, if it is short."""
    if not re.fullmatch("[0-9]{1,3}", status):
        return "status_other"
    number = int(status)
    return STATUSES[number] if number < len(STATUSES) else f"status_{number}"
