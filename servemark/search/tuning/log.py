"""Log of a search: one JSON line for each trial, on disk before the next one starts."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from servemark.errors import OptionError, ResultError
from servemark.search.tuning.space import Candidate
from servemark.search.tuning.trial import Bench, Key, Trial

LOG_FILE = "log.jsonl"


class Log:
    """A bench that remembers: a trial that the log holds is not made again. The first line has the tuning's options."""

    def __init__(self, path: Path, past: dict[Key, Trial]) -> None:
        self._path, self._past = path, past
        self._bench: Bench | None = None

    @classmethod
    def new(cls, folder: Path, asked: Mapping[str, Any]) -> Self:
        """Begin a log. Raises ResultError if it cannot be written."""
        log = cls(folder / LOG_FILE, {})
        log._append(asked)
        return log

    @classmethod
    def resume(cls, folder: Path, asked: Mapping[str, Any]) -> Self:
        """Go on with a log. Raises OptionError if the options differ, ResultError if the log is damaged."""
        path = folder / LOG_FILE
        try:
            lines = path.read_bytes().splitlines(keepends=True)
        except OSError as error:
            raise ResultError(
                f"{path} cannot be read: {error.strerror}", fix="name the directory of a tuning"
            ) from error
        if lines and not lines[-1].endswith(b"\n"):
            # A loss of power cut this line.
            os.truncate(path, sum(map(len, lines[:-1])))
            lines.pop()
        try:
            first, *trials = [json.loads(line) for line in lines]
            past = {trial.key: trial for trial in map(Trial.of_dict, trials)}
        except (ValueError, KeyError, TypeError) as error:
            raise ResultError(f"{path} is not the log of a tuning: {error}", fix="start a new one") from error
        changed = sorted(key for key in {*first, *asked} if first.get(key) != asked.get(key))
        if changed:
            was = ", ".join(f"{key} was {first.get(key)!r} and is {asked.get(key)!r}" for key in changed)
            raise OptionError(f"{folder} was another tuning: {was}", fix="use the same flags, or start a new one")
        return cls(path, past)

    def over(self, bench: Bench) -> Self:
        """Take the trials that the log does not hold from a bench."""
        self._bench = bench
        return self

    @property
    def remembered(self) -> int:
        """Number of the log's trials that have not been used yet."""
        return len(self._past)

    def trial(self, stage: str, candidate: Candidate, load: float, number: int) -> Trial:
        """Return the log's trial, else make it on the bench and log it. Raises ResultError on a full disk."""
        known = self._past.pop((stage, candidate, load, number), None)
        if known is None:
            assert self._bench is not None
            known = self._bench.trial(stage, candidate, load, number)
            self._append(known.to_dict())
        return known

    def _append(self, line: Mapping[str, Any]) -> None:
        """Append a line by one synced write, so that it is there whole or not at all."""
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(file, json.dumps(line, allow_nan=False).encode() + b"\n")
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise ResultError(
                f"{self._path} cannot be written: {error.strerror}", fix="give a directory with room: --out DIR"
            ) from error
