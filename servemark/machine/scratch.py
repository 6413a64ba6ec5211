"""Scratch folders that a killed process leaves, and that the next one of the same user removes."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

PREFIX = "servemark-"
OWNER = ".owner"
"""A file whose lock lasts as long as the process that made the folder."""
_TRITONS_OWN = "python_env_*"
"""Triton's Python backend makes one for each server, and leaves it when it is killed; it stays empty."""


class Scratch:
    """A new folder of this process. What is neither kept nor removed goes with the next start after this process."""

    def __init__(self, kind: str) -> None:
        remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-"))
        hidden = self.path / f"{OWNER}-new"
        self._lock: int | None = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        hidden.rename(self.path / OWNER)  # nobody sees it under its name before it is locked

    def keep(self) -> None:
        """Leave the folder to the user, who may read a log in it."""
        (self.path / OWNER).unlink(missing_ok=True)
        self._unlock()

    def remove(self) -> None:
        """Remove the folder with all that it holds."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._unlock()

    def end(self, *, failed: bool) -> None:
        """Keep the folder of what has failed, else remove it."""
        if failed:
            self.keep()
        else:
            self.remove()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextlib.contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """Yield a new folder, which is removed afterwards; after a SIGKILL the next start removes it."""
    scratch = Scratch(kind)
    try:
        yield scratch.path
    finally:
        scratch.remove()


def remove_abandoned() -> None:
    """Remove the folders of this user whose process is gone. A folder without an owner was kept on purpose."""
    folder = Path(tempfile.gettempdir())
    for path in folder.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # it is in use, or gone by now
            _remove(path)
    first = _first_server_s()
    for path in folder.glob(_TRITONS_OWN):
        with contextlib.suppress(OSError):  # rmdir takes empty ones alone
            found = path.lstat()
            if found.st_uid == os.geteuid() and found.st_mtime < first:
                path.rmdir()


def _remove(path: Path) -> None:
    """Remove a folder whose lock nobody holds. Raises OSError."""
    if path.is_symlink() or path.lstat().st_uid != os.geteuid():
        return  # root could take another user's away, and must not
    descriptor = os.open(path / OWNER, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path)
    finally:
        os.close(descriptor)


def _first_server_s() -> float:
    """When the oldest Triton that still runs was started: what is older belongs to none of them."""
    started = [
        process.info["create_time"]
        for process in psutil.process_iter(["name", "create_time"])
        if (process.info["name"] or "").startswith("tritonserver") and process.info["create_time"]
    ]
    return min(started, default=float("inf"))
