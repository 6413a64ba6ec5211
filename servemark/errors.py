"""One small exception tree: what happened, the value seen, and the fix; words for a machine without memory or disk."""

import contextlib
import errno
import os
import resource
from collections.abc import Iterable, Iterator
from enum import IntEnum

MAX_QUOTED = 200
"""Characters of a parser's words that an error shows."""


class ExitCode(IntEnum):
    """Exit codes of every command (docs/explanation/verdict.md, "Exit codes")."""

    VALID = 0
    LOCUST = 1  # Locust's own: a bad command line or configuration
    INVALID = 2
    BAD_INPUT = 3
    SLO_MISSED = 4
    REGRESSION = 5
    INTERNAL = 99

    @classmethod
    def worst(cls, codes: Iterable[int]) -> "ExitCode":
        """Of several runs': any invalid one counts more than a missed objective."""
        severity = (cls.VALID, cls.SLO_MISSED, cls.INVALID)
        return max(map(cls, codes), key=severity.index)


class ServemarkError(Exception):
    """Something the user can fix before anything is measured; `fix` is the command or change that does."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, what: str, *, fix: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}\n  fix: {self.fix}" if self.fix else self.what


class OptionError(ServemarkError):
    """A command-line option or a combination of options that makes no sense."""


class InputDataError(ServemarkError):
    """Input data that is missing, corrupt or not in its official layout; names the file and, where it can, the line."""


class ArtifactError(ServemarkError):
    """A model repository entry that is missing, truncated, out of tolerance or not what its workload says."""


@contextlib.contextmanager
def parsing(what: object, error_class: type[ServemarkError], *, fix: str | None = None) -> Iterator[None]:
    """Read a file of somebody else's: whatever its parser raises becomes an error that names the file.

    Damage shows in a dozen classes of exceptions: zlib.error, TokenError, RecursionError, MemoryError, and so on.
    """
    try:
        yield
    except ServemarkError:
        raise
    except Exception as error:
        words = f"no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        if isinstance(error, OSError):  # whose file `what` names already
            words = error.strerror or words
        # A text in another encoding (servemark/files.py) has its own fix.
        raise error_class(f"{what} cannot be read: {words[:MAX_QUOTED]}", fix=getattr(error, "fix", fix)) from error


class ServerError(ServemarkError):
    """A server that cannot start, cannot be reached, or does not serve what the run needs."""


class WorkerError(ServemarkError):
    """A worker of a distributed run that cannot take part; a run that has begun goes on without it."""

    def __init__(self, what: str, *, fix: str | None = None, exit_code: ExitCode = ExitCode.BAD_INPUT) -> None:
        super().__init__(what, fix=fix)
        self.exit_code = exit_code


class NoResultError(Exception):
    """A run that ended without a result: its exit code, and what it said, which is empty where it was shown already."""

    def __init__(self, exit_code: int, said: str = "") -> None:
        super().__init__(said or f"a run ended without a result, with exit code {exit_code}")
        self.exit_code = exit_code
        self.said = said

    def __reduce__(self) -> tuple[type["NoResultError"], tuple[int, str]]:
        return type(self), (self.exit_code, self.said)


class ResultError(ServemarkError):
    """A result that cannot be written or read."""


def reason(error: BaseException) -> str:
    """The words of what is behind an error: of a refused connection just that, not the libraries on its way."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return str(getattr(error, "strerror", None) or error)


BASE_BYTES, THREAD_BYTES = 384 << 20, 64 << 20
"""Address space of the interpreter with its libraries, and of malloc's arena in each thread of theirs."""
_FULL = {errno.ENOSPC, errno.EDQUOT}
_OUT_OF_REACH = {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP}
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


def of_the_system(error: Exception) -> ServemarkError | None:
    """The words of an error that the system gave: memory or disk is used up, a path is out of reach; None of others."""
    if isinstance(error, OSError) and error.errno in _FULL:
        place = error.filename2 or error.filename or "a file"
        return ServemarkError(f"{place}: {error.strerror}", fix="make room there, or choose --out and TMPDIR elsewhere")
    if isinstance(error, OSError) and error.errno in _OUT_OF_REACH and error.filename:
        return ServemarkError(f"{error.filename!s:.200}: {error.strerror}", fix="name a path that this user can reach")
    short = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    if short or (isinstance(error, ImportError) and any(words in str(error).lower() for words in _NO_MEMORY)):
        return ServemarkError(f"there is not enough memory ({str(error)[:200] or 'MemoryError'})", fix=_LESS)
    return None
