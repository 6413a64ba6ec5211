"""The server's counters at the boundaries of a run's windows, where its rate changes: a trace's seconds, and stages."""

import bisect
import time
from collections.abc import Sequence
from threading import Thread
from typing import Any, Protocol

from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.target import Target
from servemark.figures.server import NONE_EXECUTED, of_model
from servemark.results.schema.details import ServerWindow
from servemark.stats.unknown import or_unknown, unknown

_NOT_ASKED = "the server's counters were not read when it began or ended"


class Recorded(Protocol):
    """Owner of the measured interval and of the counts in it."""

    @property
    def interval(self) -> Interval:
        """The measured interval, as it is known now."""

    @property
    def recorder(self) -> Recorder:
        """The counts so far."""


class ServerWindows:
    """Reads the counters when a window begins: 0.2 ms of CPU each. One question at a time.

    A target without counters is not asked. An overloaded server may answer late: a window whose counters came more than
    half a window after its boundary has no figures.
    """

    def __init__(self, target: Target, *, available: bool) -> None:
        self._target, self._available = target, available
        self._edges: list[float] = []
        self._readings: dict[int, dict[str, Any]] = {}
        self._asked = -1
        self._reader: Thread | None = None

    def tick(self, now: int, load: Recorded) -> None:
        """Ask if a window has begun since the last question, and none waits for its answer."""
        if not self._available or now < load.interval.start:
            return
        if not self._edges:
            self._edges = edges_of(load.recorder)
        edge = bisect.bisect_right(self._edges, now) - 1
        if edge > self._asked and (self._reader is None or not self._reader.is_alive()):
            self._asked = edge
            self._reader = Thread(target=self._read, args=(edge,), daemon=True)
            self._reader.start()

    def _read(self, edge: int) -> None:
        found = self._target.statistics()
        first, last = self._edges[max(edge - 1, 0)], self._edges[min(edge + 1, len(self._edges) - 1)]
        late_ns = time.monotonic_ns() - self._edges[edge]
        if found is not None and late_ns <= (last - first) / 4:
            self._readings[edge] = found

    def finish(self, after: dict[str, Any] | None) -> None:
        """Take the counters that were read when the whole interval ended."""
        if after is not None and self._edges:
            self._readings.setdefault(len(self._edges) - 1, after)

    def figures(self, count: int) -> list[ServerWindow | None]:
        """Return the server's figures in each of the first windows, unknown where its counters were not read."""
        return [self._between(index) for index in range(count)]

    def _between(self, index: int) -> ServerWindow | None:
        before, after = self._readings.get(index), self._readings.get(index + 1)
        if before is None or after is None:
            return unknown(_NOT_ASKED if self._available else self._target.no_statistics)
        found = of_model(before, after)
        return {
            "queue_ms": or_unknown(found["server.queue"]["value"], NONE_EXECUTED),
            "compute_infer_ms": or_unknown(found["server.compute_infer"]["value"], NONE_EXECUTED),
            "batch_size_mean": or_unknown(found["server.batch_size"]["value"], NONE_EXECUTED),
        }


def edges_of(recorder: Recorder) -> list[float]:
    """Return the boundaries (ns) of a result's windows, the first and the last included."""
    interval = recorder.interval
    if recorder.seconds is not None:
        starts: Sequence[float] = [interval.start + place for place in recorder.seconds.starts_ns]
    else:
        starts = [interval.start + interval.window(index)[0] * 1e9 for index in range(interval.windows)]
    return [*starts, float(interval.end)]
