"""A machine without memory or disk: words and an exit code instead of a traceback. Imports nothing heavy."""

import errno
import os
import resource

from servemark.errors import ServemarkError

BASE_BYTES, THREAD_BYTES = 384 << 20, 64 << 20
"""Address space of the interpreter with its libraries, and of malloc's arena in each thread of theirs."""
_FULL = {errno.ENOSPC, errno.EDQUOT}
_NO_MEMORY = ("failed to map segment", "cannot allocate memory")
_LESS = "raise the limit (`ulimit -v`, the container's), or ask for less: --max-in-flight, --batch-size"


def require_address_space() -> None:
    """Refuse an address space in which OpenBLAS would ask for memory for ever (`ulimit -v`). Raises ServemarkError."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = BASE_BYTES + THREAD_BYTES * len(os.sched_getaffinity(0))
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        raise ServemarkError(
            f"`ulimit -v` leaves {allowed >> 20} MiB of address space, {needed >> 20} MiB are needed",
            fix=f"ulimit -v {needed >> 10}",
        )


def exhausted(error: Exception) -> ServemarkError | None:
    """The words of an error that says that memory or disk are used up; None of any other."""
    if isinstance(error, OSError) and error.errno in _FULL:
        place = error.filename2 or error.filename or "a file"
        return ServemarkError(f"{place}: {error.strerror}", fix="make room there, or choose --out and TMPDIR elsewhere")
    short = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    if short or (isinstance(error, ImportError) and any(words in str(error).lower() for words in _NO_MEMORY)):
        return ServemarkError(f"there is not enough memory ({str(error)[:200] or 'MemoryError'})", fix=_LESS)
    return None
