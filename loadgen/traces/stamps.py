"""Stamps of every request of a run in a file, for an explanation: absolute, as a server's own beside them are."""

import contextlib
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import numpy as np

from loadgen.driver.connections import Connections
from loadgen.sut.channel import Channel, NumberedPayload, Outcome

FILE = "stamps.npy"
COLUMNS = ("number", "due", "begun", "sent", "done", "good")
"""Columns of the file: times in ns of the monotonic clock, `good` 1 for a right answer."""


class TimedConnections(Connections):
    """Connections that note when one was begun for a request."""

    def __init__(self, connect: Callable[[], Channel], most: int, *, in_turn: bool = False) -> None:
        super().__init__(connect, most, in_turn=in_turn)
        self.begun: dict[int, int] = {}
        """Schedule of a request without an outcome -> when its connection was begun."""

    def open(self, channel: Channel) -> None:
        if channel.payload is not None:
            self.begun[channel.scheduled] = time.monotonic_ns()
        super().open(channel)


class Stamps:
    """Keeps every outcome's stamps in memory, 48 bytes each, and writes those of the measured interval at the end."""

    def __init__(self, directory: Path, connections: TimedConnections) -> None:
        self._path, self._begun = directory / FILE, connections.begun
        self._kept = array("q")

    def seen(self, on_request: Callable[[Outcome, str], None]) -> Callable[[Outcome, str], None]:
        """Wrap a handler so that every outcome is seen before `on_request` is called."""

        def see(outcome: Outcome, words: str) -> None:
            payload, due, sent, done, error = outcome[:5]
            if isinstance(payload, NumberedPayload):
                begun = self._begun.pop(due, sent)
                self._kept.extend((payload.number, due, min(begun, sent), sent, done, error is None))
            on_request(outcome, words)

        return see

    def write(self, start: int, end: int) -> None:
        """Write the requests that were due in an interval (ns). A disk that is full costs the explanation alone."""
        rows = np.array(self._kept, dtype=np.int64).reshape(-1, len(COLUMNS))
        with contextlib.suppress(OSError):
            np.save(self._path, rows[(rows[:, 1] >= start) & (rows[:, 1] < end)])
