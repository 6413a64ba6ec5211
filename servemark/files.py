"""Files that somebody names as input: regular ones of a bounded size. A pipe would be waited for, a device never ends.

What is refused is an OSError with words as its `strerror`, as of a file that is not there.
"""

import codecs
import errno
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO, TextIO

_CHUNK_BYTES = 1 << 20
_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # before UTF-16's, which is its beginning
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_MARK_BYTES = 4
TEXT_BYTES = 1 << 20
"""The most of a file that a person writes: options, headers."""
CODE_BYTES = 16 << 20
"""The most of a file of Python."""
DOCUMENT_BYTES = 64 << 20
"""The most of a document: a result with its windows, a description of a model."""
DATA_BYTES = 1 << 30
"""The most of a file of figures or inputs that is read at once."""


def require_regular(path: Path, status: os.stat_result | None = None) -> None:
    """Raise OSError where a path leads to no regular file, by its status, without opening it."""
    mode = (status or path.stat()).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        raise OSError(errno.EINVAL, f"is a {kind}, not a regular file", str(path))


def opened(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError."""
    require_regular(path)  # opening a device can have effects
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        require_regular(path, os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


class NotTextError(ValueError):
    """A file that is not UTF-8: its words name the line, `fix` says how it becomes a text."""

    def __init__(self, what: str, encoding: str = "ENCODING") -> None:
        super().__init__(what)
        self.fix = f"save it as UTF-8, for example by: iconv -f {encoding} -t UTF-8 FILE"


def opened_text(path: Path, newline: str | None = "") -> TextIO:
    """Open a regular file of UTF-8 for reading line by line, with its ends of lines as they are.

    A byte order mark is passed over. Raises OSError, NotTextError for UTF-16.
    """
    file = opened(path)
    try:
        require_utf8(file.peek(_MARK_BYTES) if isinstance(file, io.BufferedReader) else b"")
        return io.TextIOWrapper(file, encoding="utf-8-sig", newline=newline)
    except BaseException:
        file.close()
        raise


def content(path: Path, most_bytes: int) -> bytes:
    """Read a regular file of at most `most_bytes`. Raises OSError."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        found = bytearray()
        # In pieces: a file of /proc is larger than it says, and one that grows may not end.
        while size <= most_bytes and (piece := file.read(_CHUNK_BYTES)):
            found += piece
            size = max(size, len(found))
    if size > most_bytes:
        raise OSError(errno.EFBIG, f"larger than {_words(most_bytes)}", str(path))
    return bytes(found)


def text(path: Path, most_bytes: int) -> str:
    """Read a regular file that a person may have written: UTF-8, with a byte order mark or without.

    Raises OSError, NotTextError.
    """
    return decoded(content(path, most_bytes))


def decoded(data: bytes) -> str:
    """Decode the content of a file, as `text` does. Raises NotTextError."""
    require_utf8(data)
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise NotTextError(f"line {line}: byte 0x{error.object[error.start]:02x} is not UTF-8") from None


def require_utf8(start: bytes) -> None:
    """Raise NotTextError if a file begins as UTF-16 or UTF-32 does: by a byte order mark, or by characters with zeros.

    UTF-16 without a mark is UTF-8 to a decoder, with zeros between its letters.
    """
    mark = next((encoding for each, encoding in _MARKS.items() if start.startswith(each)), None)
    zeros = [place for place, byte in enumerate(start[:_MARK_BYTES]) if byte == 0]
    found = mark or ("UTF-16BE" if zeros == [0, 2] else "UTF-16LE" if zeros == [1, 3] else None)
    if found:
        raise NotTextError(f"it is {found.rstrip('BLE')}, not UTF-8", found)


def _words(size: int) -> str:
    return f"{size >> 30} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"
