"""Journal of the scored examples on the disk, so that an interrupted run goes on where it stopped."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from servemark.errors import ResultError, parsing
from servemark.quality.metric import Row
from servemark.results.directory import write_atomically

FILE = "examples.jsonl"
NOT_A_NUMBER = "not_a_number"
"""Kind of failure of an example whose answer holds NaN or gives an infinite figure."""


class Scored(NamedTuple):
    """One example: its number, the digest of its requests and label, its row, and the kind of failure."""

    example: int
    digest: str
    row: Row | None
    """None if the example failed and the metric has no worst answer."""
    error: str | None = None


class Journal:
    """A line of JSON for each example, in the order of their answers. A context manager.

    Raises ResultError where it cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.scored: dict[int, Scored] = {entry.example: entry for entry in self._read()}

    def __enter__(self) -> Self:
        # Drops a line that was cut in the middle; replaces the whole file, so that an interruption here loses nothing.
        write_atomically(self.path, "".join(map(_line, self.scored.values())))
        try:
            self._file = self.path.open("a")
        except OSError as error:
            raise ResultError(f"{self.path} cannot be written: {error.strerror}", fix="--out DIR") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, entry: Scored) -> None:
        """Keep an example."""
        self.scored[entry.example] = entry
        self._file.write(_line(entry))

    def flush(self) -> None:
        """Hand the added lines over to the operating system."""
        self._file.flush()

    def _read(self) -> Iterator[Scored]:
        if not self.path.exists():
            return
        with parsing(self.path, ResultError, fix="--fresh begins anew"):
            for line in self.path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    fields: list[Any] = json.loads(line)
                    yield Scored(*fields)


def _line(entry: Scored) -> str:
    return json.dumps(entry) + "\n"
