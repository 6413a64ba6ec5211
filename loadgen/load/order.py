"""The file that a run's process gets: the request, and what the caller has resolved of it."""

from pathlib import Path

import msgspec
from msgspec import Struct

from servemark.documents.request import RunRequest
from servemark.results.directory import ORDER_FILE


class Order(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run to make."""

    request: RunRequest
    address: str
    """The server that is really asked, as --url names it."""
    result_dir: str
    """The result directory, made by the caller."""
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
