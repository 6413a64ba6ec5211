"""Memory that this process shares with a server: a region of it, its name, and what a killed process has left."""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from servemark.errors import ServerError

FOLDER = Path("/dev/shm")  # noqa: S108  where shm_open, which Triton calls, looks for a key
PREFIX = "servemark_load_"
_LESS = "--shared-memory none, or less of it: --max-in-flight N, --batch-size N"


class Region(Protocol):
    """Memory of one size, which the server knows by `name`; `kind` is its kind as --shared-memory has it."""

    kind: str
    name: str
    size: int

    @property
    def registration(self) -> dict[str, Any]:
        """Return the fields that the server needs in order to find the region."""

    def write(self, offset: int, data: bytes) -> None:
        """Copy into it."""

    def read(self, offset: int, size: int) -> bytes:
        """Copy a part of it."""

    def close(self) -> None:
        """Give the memory back; safe to call twice."""


class Claim:
    """A file in FOLDER whose lock lasts as long as this process: it tells others whose region is abandoned."""

    def __init__(self, name: str) -> None:
        self.path = FOLDER / name
        hidden = FOLDER / f".{name}"
        try:
            self.fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                # Nobody sees it under its name before it is locked.
                fcntl.flock(self.fd, fcntl.LOCK_EX)
                self.path.hardlink_to(hidden)
            except OSError:
                os.close(self.fd)
                raise
            finally:
                hidden.unlink()
        except OSError as error:
            raise ServerError(f"no shared memory {self.path}: {error.strerror}", fix="--shared-memory none") from error

    def close(self) -> None:
        """Remove the file."""
        if self.fd >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self.fd)
            self.fd = -1


class PosixRegion:
    """System shared memory (shm_open); whoever has it mapped when it is closed keeps it until then."""

    kind = "system"

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self._claim = Claim(name)
        try:
            # Unlike truncation this takes the memory, so that a full /dev/shm is an error here and no SIGBUS later.
            os.posix_fallocate(self._claim.fd, 0, size)
        except OSError as error:
            self.close()
            raise ServerError(f"{FOLDER} has no room for {size / 1e6:.0f} MB: {error.strerror}", fix=_LESS) from error

    @property
    def registration(self) -> dict[str, Any]:
        return {"key": f"/{self.name}", "offset": 0, "byte_size": self.size}

    def write(self, offset: int, data: bytes) -> None:
        os.pwrite(self._claim.fd, data, offset)

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._claim.fd, size, offset)

    def close(self) -> None:
        self._claim.close()


def new_name(kind: str) -> str:
    """A name that no run had before: a server remembers the regions of one that was killed."""
    return f"{PREFIX}{kind}_{os.getpid()}_{secrets.token_hex(4)}"


def abandoned() -> Iterator[tuple[str, str]]:
    """Kind and name of each region of this user's whose process was killed.

    Its file is gone when the next one is asked for.
    """
    for path in FOLDER.glob(f"{PREFIX}*"):
        try:
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue  # gone by now, or another user's
        try:
            if os.fstat(fd).st_uid != os.geteuid():
                continue  # root could take it away, and must not
            with contextlib.suppress(OSError):  # it is in use
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield path.name.removeprefix(PREFIX).partition("_")[0], path.name
                path.unlink(missing_ok=True)
        finally:
            os.close(fd)
