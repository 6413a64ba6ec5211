"""Counts for each second of a trace: a result's windows where the rate changes by itself."""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.measurement.windows import Interval, window_figures
from servemark.results.schema.details import WindowFigures
from servemark.stats.histogram import MAX_US, Histogram

S = 1_000_000_000
MAX_SECONDS = 3600
"""A longer trace has windows of 2 s, 3 s and so on, so that a result stays readable."""

Times = npt.NDArray[np.int64]


class Seconds:
    """Latencies, answers and failures of a trace by the second.

    Each latency is kept in 4 bytes, which the length of a trace bounds: 3,600 histograms would take half a gigabyte.
    """

    def __init__(self, interval: Interval) -> None:
        self._start, whole_ns = interval.start, interval.end - interval.start
        self._length_ns = S * max(1, -(-whole_ns // (MAX_SECONDS * S)))
        self._count = -(-whole_ns // self._length_ns)
        self._latencies_us = [array("I") for _ in range(self._count)]
        self._completed, self._errors = np.zeros((2, self._count), np.int64)

    @property
    def count(self) -> int:
        """Return the number of its windows."""
        return self._count

    @property
    def starts_ns(self) -> list[int]:
        """Return the start of each of its windows, from the start of the interval."""
        return [place * self._length_ns for place in range(self._count)]

    def came(self, done: Times) -> None:
        """Count good answers by the time at which they came, inside the interval."""
        self._completed += np.bincount(self._of(done), minlength=self._count)

    def failed(self, scheduled: int) -> None:
        """Count a failed request by its scheduled time."""
        self._errors[(scheduled - self._start) // self._length_ns] += 1

    def measured(self, scheduled: Times, latency_ns: Times) -> None:
        """Keep good requests' latencies by their scheduled time."""
        places = self._of(scheduled)
        rounded = np.minimum((latency_ns + 500) // 1000, MAX_US).astype(np.uint32)
        for place in np.unique(places):
            self._latencies_us[place].frombytes(rounded[places == place].tobytes())

    def figures(self, measured_s: float, limit_ms: float | None) -> list[WindowFigures]:
        """The windows that have begun; `limit_ms` is the latency objective's."""
        out = []
        length_s = self._length_ns / S
        for place, latencies in enumerate(self._latencies_us):
            start_s = place * length_s
            if start_s >= measured_s:
                break
            latency = Histogram()
            latency.record(np.frombuffer(latencies, np.uint32).astype(np.int64) * 1000)
            completed, errors = int(self._completed[place]), int(self._errors[place])
            latency.failed = errors
            passed_s = min(length_s, measured_s - start_s)
            out.append(window_figures(start_s, passed_s, latency, completed, errors, limit_ms))
        return out

    def pack(self) -> list[Any]:
        """All of it as msgpack can hold it."""
        latencies = [latencies.tobytes() for latencies in self._latencies_us]
        return [latencies, self._completed.tolist(), self._errors.tolist()]

    def add(self, packed: Sequence[Any]) -> None:
        """Count what another process has packed, of an interval of the same length."""
        latencies, completed, errors = packed
        for ours, theirs in zip(self._latencies_us, latencies, strict=True):
            ours.frombytes(theirs)
        self._completed += np.array(completed, np.int64)
        self._errors += np.array(errors, np.int64)

    def _of(self, times: Times) -> Times:
        return (times - self._start) // self._length_ns
