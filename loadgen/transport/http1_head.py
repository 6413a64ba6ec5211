"""The head of an HTTP/1 response, and how it frames the body (RFC 9112, section 6.3)."""

import re
from dataclasses import dataclass
from http import HTTPStatus

from loadgen.sut.channel import ConnectionFailed
from loadgen.transport.limits import MAX_HEAD_BYTES

HEAD_END = b"\r\n\r\n"
_NO_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_PLAIN = (b"", b"identity")


class MalformedResponse(ConnectionFailed):
    """Bytes that are not an HTTP/1.1 response with a KServe v2 body."""

    def __init__(self, message: str) -> None:
        super().__init__("malformed_response", message)


@dataclass(frozen=True)
class Head:
    """A parsed response head. `json_length` is None if the body is JSON without binary tensors."""

    status: int
    content_length: int
    """Bytes of the body; 0 where it comes in chunks."""
    json_length: int | None
    keep_alive: bool
    encoding: str = ""
    """Its Content-Encoding; empty where the body is as it is."""
    location: str = ""
    """Goal of a redirect."""
    chunked: bool = False
    """The body comes in chunks, of which the last says that it is complete."""

    @property
    def interim(self) -> bool:
        """Return True if the final response is still to come (RFC 9110, section 15.2)."""
        return self.status < 200 and self.status != HTTPStatus.SWITCHING_PROTOCOLS


def parse_head(head: bytes) -> Head:
    """Parse a response head, without its empty line. Raises MalformedResponse."""
    if len(head) > MAX_HEAD_BYTES:
        raise MalformedResponse(f"a head of more than {MAX_HEAD_BYTES} bytes")
    status_line, *lines = head.split(b"\r\n")
    parts = status_line.split(b" ", 2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not re.fullmatch(b"[1-9][0-9][0-9]", parts[1]):
        raise MalformedResponse(f"not an HTTP/1 status line: {status_line[:80]!r}")
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, separator, value = line.partition(b":")
        if not separator:
            raise MalformedResponse(f"not a header field: {line[:80]!r}")
        fields[name.strip().lower()] = value.strip()
    status = int(parts[1])
    interim = Head(status, 0, None, keep_alive=True)
    if interim.interim:
        return interim
    chunked = _chunked(fields.get(b"transfer-encoding", b"").lower())
    try:
        json_length = fields.get(b"inference-header-content-length")
        return Head(
            status=status,
            # chunks go before a length, and some statuses before both
            content_length=0 if chunked or status in _NO_BODY else _length(fields[b"content-length"]),
            json_length=None if json_length is None else _length(json_length),
            keep_alive=fields.get(b"connection", b"").lower() != b"close" and parts[0] == b"HTTP/1.1",
            encoding=fields.get(b"content-encoding", b"").decode("latin-1").lower().replace("identity", ""),
            location=fields.get(b"location", b"").decode("latin-1"),
            chunked=chunked and status not in _NO_BODY,
        )
    except KeyError as error:
        raise MalformedResponse("a response with neither a Content-Length nor chunks") from error
    except ValueError as error:
        raise MalformedResponse(f"a length that is not a number: {error}") from error


def _chunked(coding: bytes) -> bool:
    """Return True if the body comes in chunks. Raises MalformedResponse for any other transfer coding."""
    if coding not in (b"chunked", *_PLAIN):
        raise MalformedResponse(f"the transfer coding {coding[:80]!r}, which was not asked for")
    return coding == b"chunked"


def _length(digits: bytes) -> int:
    """Raises ValueError, also for a sign and for numbers that nobody can mean."""
    if not re.fullmatch(b"[0-9]{1,18}", digits):
        raise ValueError(digits[:80])
    return int(digits)
