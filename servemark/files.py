"""Files that somebody names as input: regular ones of a bounded size. A pipe would be waited for, a device never ends.

What is refused is an OSError with words as its `strerror`, as of a file that is not there.
"""

import errno
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO, TextIO

_CHUNK_BYTES = 1 << 20
TEXT_BYTES = 1 << 20
"""The most of a file that a person writes: options, headers."""
CODE_BYTES = 16 << 20
"""The most of a file of Python."""
DOCUMENT_BYTES = 64 << 20
"""The most of a document: a result with its windows, a description of a model."""
DATA_BYTES = 1 << 30
"""The most of a file of figures or inputs that is read at once."""


def require_regular(path: Path) -> None:
    """Raise OSError where a path leads to no regular file, without opening it."""
    _require_regular(path.stat(), path)


def opened(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError."""
    require_regular(path)  # opening a device can have effects
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_regular(os.fstat(descriptor), path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def opened_text(path: Path) -> TextIO:
    """Open a regular file of UTF-8 for reading line by line, with its ends of lines as they are. Raises OSError."""
    return io.TextIOWrapper(opened(path), encoding="utf-8", newline="")


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
    """Read a regular file of UTF-8. Raises OSError, UnicodeDecodeError."""
    return content(path, most_bytes).decode()


def _require_regular(status: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        kind = "pipe" if stat.S_ISFIFO(status.st_mode) else "socket" if stat.S_ISSOCK(status.st_mode) else "device"
        raise OSError(errno.EINVAL, f"is a {kind}, not a regular file", str(path))


def _words(size: int) -> str:
    return f"{size >> 30} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"
