"""State that all connections calling one gRPC method share: its header block, known answers and statuses."""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from loadgen.transport.http2_frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEAD_BYTES,
    HEADERS,
    FieldDecoder,
    encode_fields,
    unpack_head,
)
from loadgen.transport.limits import MAX_REMEMBERED_BYTES
from servemark.workload import Arrays, Tensor

PREFIX_BYTES = 5
STREAM_BYTES = 4
STATUSES = (
    "ok", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists",
    "permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented",
    "internal", "unavailable", "data_loss", "unauthenticated",
)  # fmt: skip
"""gRPC's status codes by number."""
RESET_STATUS = {7: "unavailable", 8: "cancelled", 11: "resource_exhausted", 12: "permission_denied"}
"""gRPC statuses of HTTP/2's error codes; all other codes are "internal"."""


def enclose(message: bytes) -> bytes:
    """A message as it travels: not compressed, its length before it."""
    return b"\0" + len(message).to_bytes(4, "big") + message


@dataclass(frozen=True)
class Method:
    """A method of a service on one server, and what judges its answers: shared by all connections that call it.

    `judge` gives the kind of error of a serialised answer, None where it is right; `decode` gives its output
    arrays, `error_message` what it says about its failure.
    """

    path: str
    authority: str
    judge: Callable[[bytes], str | None]
    decode: Callable[[bytes, Sequence[Tensor]], Arrays]
    error_message: Callable[[bytes], str]
    max_bytes: int
    """The longest message that is taken."""
    scheme: str = "http"
    metadata: Sequence[tuple[str, str]] = ()
    decoder: FieldDecoder = field(default_factory=FieldDecoder)
    forms: dict[int, "Form"] = field(default_factory=dict)
    """The forms of good responses that came whole, by their length."""

    @functools.cached_property
    def block(self) -> bytes:
        """The header block of every call."""
        fields = [(":method", "POST"), (":scheme", self.scheme), (":path", self.path), (":authority", self.authority)]
        return encode_fields([*fields, ("te", "trailers"), ("content-type", "application/grpc"), *self.metadata])


class Form(NamedTuple):
    """A good response that came whole: HEADERS, one DATA frame, trailers. Only its stream and message change.

    A server repeats itself, and comparing bytes costs less than reading three frames.
    """

    head: bytes
    middle: bytes
    tail: bytes
    end: bytes
    first: int
    last: int

    @classmethod
    def of(cls, data: bytes, stream: int) -> "Form | None":
        """The form of a response on a stream, None where it has more or other frames."""
        heads, position = [], 0
        while position + HEAD_BYTES <= len(data):
            word, flags, number = unpack_head(data, position)
            heads.append((word & 0xFF, flags, number))
            bounds = position, position + HEAD_BYTES + (word >> 8)
            if len(heads) == 2:
                first, last = bounds
            position = bounds[1]
        usual = [(HEADERS, END_HEADERS, stream), (DATA, 0, stream), (HEADERS, END_HEADERS | END_STREAM, stream)]
        if heads != usual or position != len(data):
            return None
        body = first + HEAD_BYTES
        # The stream is the last part of a frame's head.
        middle, tail = data[HEAD_BYTES : body - STREAM_BYTES], data[last : last + HEAD_BYTES - STREAM_BYTES]
        return cls(data[: HEAD_BYTES - STREAM_BYTES], middle, tail, data[last + HEAD_BYTES :], body, last)

    @property
    def short(self) -> bool:
        """Return True if the answer is short enough to be remembered."""
        return len(self.middle) + len(self.end) <= MAX_REMEMBERED_BYTES

    def message(self, data: bytes, stream: bytes) -> bytes | None:
        """The enclosed message of a response of this form, None where it has another one."""
        if data.startswith(b"".join((self.head, stream, self.middle, stream))) and data.endswith(
            b"".join((self.tail, stream, self.end))
        ):
            return data[self.first : self.last]
        return None


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
        return self.status_message or self.method.error_message(self.body)

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:
        return self.method.decode(self.body, outputs)


def status_name(status: str) -> str:
    """The name of a status code as it travels; a number that gRPC does not know stays one, if it is short."""
    if not re.fullmatch("[0-9]{1,3}", status):
        return "status_other"
    number = int(status)
    return STATUSES[number] if number < len(STATUSES) else f"status_{number}"
