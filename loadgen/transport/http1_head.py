"""The head of an HTTP/1 response, how it frames the body, and a body in chunks (RFC 9112, sections 6.3 and 7.1)."""

import re
from dataclasses import dataclass
from http import HTTPStatus

from loadgen.transport.limits import MAX_HEAD_BYTES, MalformedResponse, TooLarge

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,20})[ \t]*(?:;[^\r\n]*)?")
"""Size of a chunk. Extensions say nothing to us, and some servers pad the size with blanks."""
_LINE_END = b"\r\n"
HEAD_END = b"\r\n\r\n"
_NO_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


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
    coding = fields.get(b"transfer-encoding", b"").lower()
    if coding not in (b"chunked", b"", b"identity"):
        raise MalformedResponse(f"the transfer coding {coding[:80]!r}, which was not asked for")
    chunked = coding == b"chunked"
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


def _length(digits: bytes) -> int:
    """Raises ValueError, also for a sign and for numbers that nobody can mean."""
    if not re.fullmatch(b"[0-9]{1,18}", digits):
        raise ValueError(digits[:80])
    return int(digits)


class Chunks:
    """The chunks of one body of at most `limit` bytes, with their sizes, extensions and trailers left out."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self._unread = b""
        """The beginning of a line whose end has yet to come."""
        self._missing = 0
        """Bytes of the current chunk that have yet to come."""
        self._in_trailers = False
        self._overhead = 0
        """Bytes of trailers."""
        self._ends_chunk = False
        """The line end after a chunk's data is next."""
        self.size = 0
        """Bytes of the body, in all chunks that have begun."""

    @property
    def body(self) -> bytes:
        """The body as far as it has come."""
        return bytes(self._data)

    def take(self, data: bytes) -> bool:
        """Take what has come; return True once the body is complete. Raises MalformedResponse, TooLarge."""
        place = 0
        while place < len(data):
            if self._missing:
                piece = data[place : place + self._missing]
                self._data += piece
                self._missing -= len(piece)
                place += len(piece)
                continue
            end = self._line_end(data, place)
            line = self._unread + data[place:end]
            place = end
            if not line.endswith(_LINE_END):
                self._unread = line
                if len(line) > MAX_HEAD_BYTES:
                    raise MalformedResponse(f"a line of more than {MAX_HEAD_BYTES} bytes between chunks")
                return False
            self._unread = b""
            if self._line(line[: -len(_LINE_END)]):
                if place < len(data):
                    raise MalformedResponse(f"{len(data) - place} bytes beyond the response's last chunk")
                return True
        return False

    def _line_end(self, data: bytes, place: int) -> int:
        """Return the place after the next line end, that of the data if there is none."""
        if self._unread.endswith(b"\r") and data.startswith(b"\n", place):
            return place + 1
        found = data.find(_LINE_END, place)
        return len(data) if found < 0 else found + len(_LINE_END)

    def _line(self, line: bytes) -> bool:
        """Take a line between chunks; return True if it ends the body. Raises MalformedResponse, TooLarge."""
        if self._in_trailers:
            self._overhead += len(line)
            if self._overhead > MAX_HEAD_BYTES:
                raise MalformedResponse(f"trailers of more than {MAX_HEAD_BYTES} bytes")
            return not line
        if self._ends_chunk:
            if line:
                raise MalformedResponse(f"a chunk that is longer than its size: {line[:80]!r}")
            self._ends_chunk = False
            return False
        found = _SIZE.fullmatch(line)
        if not found:
            raise MalformedResponse(f"not the size of a chunk: {line[:80]!r}")
        self._missing = int(found[1], 16)
        self.size += self._missing
        if self.size > self._limit:
            raise TooLarge(self.size, self._limit)
        self._in_trailers = not self._missing
        self._ends_chunk = not self._in_trailers
        return False
