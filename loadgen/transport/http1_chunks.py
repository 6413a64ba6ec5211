"""A response's body in chunks, as they come (RFC 9112, section 7.1)."""

import re

from loadgen.transport.http1_head import MalformedResponse
from loadgen.transport.limits import MAX_HEAD_BYTES, TooLarge

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,20})[ \t]*(?:;[^\r\n]*)?")
"""Size of a chunk. Extensions say nothing to us, and some servers pad the size with blanks."""
_LINE_END = b"\r\n"


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
