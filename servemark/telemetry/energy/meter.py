"""A meter: samples of a counter or of power while a window is open, and the joules they add up to."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from servemark.telemetry.native import native, start_thread

Source = Literal["nvml_total_energy", "nvml_power", "rapl"]
Boundary = Literal["gpu_board", "cpu_package", "dram"]

COUNTER_PERIOD_S = 10.0
"""A package's counter wraps after some 260 kJ: ten minutes at 400 W. It must be read more often than that."""
POWER_PERIOD_S = 0.05
"""NVML's power reading is itself refreshed every 20 to 100 ms."""


@dataclass(frozen=True)
class EnergyReading:
    """Energy over one window; `joules` and `average_w` are None where `reason` says why."""

    joules: float | None
    average_w: float | None
    window_s: float
    samples: int
    source: Source
    boundary: Boundary
    reason: str | None = None


class Sample(NamedTuple):
    """One reading of every part (board, package) of a meter: joules so far, or watts."""

    time_ns: int
    values: tuple[float, ...]


class UnavailableError(Exception):
    """A meter cannot be read; the message is the reason that results and `servemark doctor` show."""


def counted_joules(samples: Sequence[Sample], ranges_j: Sequence[float]) -> float:
    """Energy between the first and the last sample of counters that wrap around at `ranges_j`, summed over parts."""
    total_j = 0.0
    for before, after in itertools.pairwise(samples):
        for a, b, range_j in zip(before.values, after.values, ranges_j, strict=True):
            total_j += b - a if b >= a else b - a + range_j
    return total_j


def integrated_joules(samples: Sequence[Sample]) -> float:
    """Energy of power samples by the trapezoidal rule, summed over parts."""
    return sum(
        (sum(before.values) + sum(after.values)) / 2 * (after.time_ns - before.time_ns) / 1e9
        for before, after in itertools.pairwise(samples)
    )


class _Sampling:
    """A window's samples, taken by an operating-system thread that nobody has to wait for."""

    def __init__(self, read: Callable[[], tuple[float, ...]], period_s: float) -> None:
        self._read, self._period_s = read, period_s
        self._samples: list[Sample] = []
        self._error: str | None = None
        self._stopped = False
        self._one_at_a_time = native("_thread", "allocate_lock")()
        self._take()
        start_thread(self._run)

    def _take(self) -> None:
        # A value that is stamped after a later one would look as if the counter had wrapped around, which is 260 kJ.
        with self._one_at_a_time:
            try:
                values = self._read()
            except UnavailableError as error:
                self._error = str(error)
            else:
                self._samples.append(Sample(time.monotonic_ns(), values))

    def _run(self) -> None:
        sleep = native("time", "sleep")
        while not self._stopped and self._error is None:
            next_s = time.monotonic() + self._period_s
            # Short naps, so that the thread of a counter does not outlive its window by ten seconds.
            while not self._stopped and (left_s := next_s - time.monotonic()) > 0:
                sleep(min(left_s, 0.2))
            if not self._stopped:
                self._take()

    def stop(self) -> tuple[list[Sample], str | None]:
        """Take the last sample and return all of them in order, with what went wrong."""
        self._stopped = True
        self._take()
        return sorted(self._samples), self._error


class Meter:
    """Reads joules over a window; `ranges_j` are the counters' wrap-around points, None for a meter of power."""

    def __init__(
        self,
        source: Source,
        boundary: Boundary,
        read: Callable[[], tuple[float, ...]],
        *,
        ranges_j: Sequence[float] | None,
        period_s: float | None = None,
    ) -> None:
        self.source, self.boundary = source, boundary
        self.read, self._ranges_j = read, ranges_j
        """Reads every part once: joules so far, or watts. Raises UnavailableError."""
        self._period_s = period_s or (POWER_PERIOD_S if ranges_j is None else COUNTER_PERIOD_S)
        self._sampling: _Sampling | None = None

    @property
    def counts(self) -> bool:
        """Whether it reads joules, not watts."""
        return self._ranges_j is not None

    def joules(self, samples: Sequence[Sample]) -> float:
        """The energy between the first and the last sample."""
        return integrated_joules(samples) if self._ranges_j is None else counted_joules(samples, self._ranges_j)

    def start(self) -> None:
        """Begin a window; an open one is given up."""
        if self._sampling is not None:
            self._sampling.stop()
        self._sampling = _Sampling(self.read, self._period_s)

    def stop(self) -> EnergyReading:
        """End the window. Raises RuntimeError when none was begun."""
        if self._sampling is None:
            raise RuntimeError("Meter.stop() without start()")
        samples, reason = self._sampling.stop()
        self._sampling = None
        window_s = (samples[-1].time_ns - samples[0].time_ns) / 1e9 if samples else 0.0
        joules = 0.0
        if reason is None:
            joules = self.joules(samples)
            if joules <= 0:
                reason = f"{self.source} did not move within {window_s:.3f} s: measure a longer window"
        if reason is not None:
            return EnergyReading(None, None, window_s, len(samples), self.source, self.boundary, reason)
        return EnergyReading(joules, joules / window_s, window_s, len(samples), self.source, self.boundary)
