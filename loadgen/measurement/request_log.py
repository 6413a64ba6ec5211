"""Every request of a run in a file, for whoever wants to compute the figures anew."""

import contextlib
import os
from pathlib import Path

from loadgen.sut.channel import Outcome
from servemark.errors import ResultError
from servemark.library.requests import CSV_FILE, HEAD
from servemark.output import note


class RequestLog:
    """A line for each request, in the order of their outcomes, those of the warm-up too.

    Times are in ns from the start of the measured interval; `sent_ns` is empty where the request never went out,
    `error` where it succeeded. The file has its name when it is complete: a disk that fills up during a run
    costs the log, and not the run.
    """

    def __init__(self, directory: Path, origin_ns: int) -> None:
        self._path, self.origin = directory / CSV_FILE, origin_ns
        self._unfinished = directory / f".{CSV_FILE}.{os.getpid()}"
        self._rows: list[tuple[int, int, int, str | None]] = []
        try:
            self._file = self._unfinished.open("w")
        except OSError as error:
            raise ResultError(
                f"{self._path} cannot be written: {error.strerror}", fix="give a directory with room: --out DIR"
            ) from error
        self._file.write(f"{','.join(HEAD)}\n")

    def take(self, outcome: Outcome) -> None:
        """Keep one outcome; the hot path."""
        self._rows.append(outcome[1:5])

    def flush(self) -> None:
        """Write what was taken."""
        rows, origin = len(self._rows), self.origin
        text = "".join(
            f"{scheduled - origin},{sent - origin if sent else ''},{done - origin},{error or ''}\n"
            for scheduled, sent, done, error in self._rows
        )
        del self._rows[:rows]
        if text and not self._file.closed:
            try:
                self._file.write(text)
            except OSError as error:
                self._give_up(error)

    def close(self) -> None:
        """Write the rest, and give the file its name."""
        self.flush()
        if self._file.closed:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._unfinished.replace(self._path)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        note(f"no {CSV_FILE}: {error.strerror}")
        with contextlib.suppress(OSError):
            # What it still holds cannot be written either.
            self._file.close()
        self._unfinished.unlink(missing_ok=True)
