"""The file that a run's process gets: the request, and what the caller has resolved of it; and when it begins."""

import time
from pathlib import Path

import msgspec
from msgspec import Struct

from servemark import interrupts
from servemark.documents.request import RunRequest
from servemark.errors import ServerError
from servemark.results.directory import ORDER_FILE

START_IN_S = 0.05
"""The schedule begins this long after the connections are open."""
START_TIMEOUT_S = 900.0
"""Maximum wait of a run that is ready for others that begin with it."""


class Startup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The start of a server of our own, which has answered no request yet."""

    load_s: float
    """Time from the start of its process until its models were ready."""
    ready_ns: int
    """The time at which they were (monotonic ns)."""


class Order(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run to make."""

    request: RunRequest
    address: str
    """The server that is really asked, as --url names it."""
    result_dir: str
    """The result directory, made by the caller."""
    server_root: int | None = None
    """The process from which the server's descend, where the caller has started it."""
    startup: Startup | None = None
    """The start of that server, where its caller has just started it for a cold start."""
    start_file: str = ""
    """Begin at the time (monotonic ns) in this file."""

    def place(self) -> Path:
        """Write it into the result directory; its path."""
        path = Path(self.result_dir, ORDER_FILE)
        path.write_bytes(msgspec.json.encode(self))
        return path

    @classmethod
    def take(cls, path: Path) -> "Order":
        """Read it, and remove the file."""
        order = msgspec.json.decode(path.read_bytes(), type=cls)
        path.unlink()
        return order


def start_time(file: Path | None, ahead_s: float = START_IN_S) -> int:
    """Return when the schedule begins: soon, or at the time that its caller writes when several runs are ready."""
    if file is None:
        return time.monotonic_ns() + int(ahead_s * 1e9)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not (file.exists() and (text := file.read_text())):
        if time.monotonic() > deadline:
            raise ServerError(f"{file} did not come within {START_TIMEOUT_S:g} s: the caller has not begun the run")
        interrupts.sleep(0.01)
    return int(text)
