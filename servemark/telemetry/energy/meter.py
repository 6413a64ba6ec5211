"""A meter: samples of a counter or of power while a window is open, and the joules they add up to."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from servemark.telemetry.os_threads import PeriodicThread, native

Source = Literal["nvml_total_energy", "nvml_power", "amdsmi", "rapl", "power_command"]
Boundary = str
"""gpu_board, cpu_package, dram, or what the user says that a power command meters."""

COUNTER_PERIOD_S = 0.25
"""Interval between readings of a counter, which tell the energy of parts of a window."""
POWER_PERIOD_S = 0.05
"""Interval between readings of power: NVML refreshes its own every 20 to 100 ms."""
UPDATE_S: dict[Source, float] = {
    "nvml_total_energy": 0.1,
    "nvml_power": 1.0,
    "amdsmi": 0.1,
    "rapl": 0.001,
    "power_command": 0.0,
}
"""Maximum age of a reading. NVML's power is a mean of the last second on Ampere and newer; RAPL is refreshed every ms;
a command shows its interval by its lines."""
REFRESHES = 20
"""Least number of refreshes in a window. Each end is off by one at the most. Of a trailing mean, half a refresh from
before the window stands for half a refresh of its end: 2.5 % of their difference."""
MOST_W = 10_000.0
"""Of one part. A counter that grows faster has started anew, or leapt."""
STUCK_S = 1.0
"""A part that uses nothing for so long is not metered."""

Check = Callable[[int, int], str | None]
"""Function that returns why the window between two times (ns) cannot be trusted, None if it can."""


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


def counted_joules(samples: Sequence[Sample], ranges_j: Sequence[float], update_s: float = 0.0) -> float:
    """Energy between the first and the last sample of counters that wrap around at `ranges_j`, summed over parts.

    They are refreshed every `update_s`: what was used meanwhile shows at once.
    Raises UnavailableError where a counter stood still, started anew or leapt.
    """
    total_j = 0.0
    moved_ns = [samples[0].time_ns] * len(ranges_j) if samples else []
    for before, after in itertools.pairwise(samples):
        passed_s = (after.time_ns - before.time_ns) / 1e9
        for part, (a, b, range_j) in enumerate(zip(before.values, after.values, ranges_j, strict=True)):
            grown_j = b - a if b >= a else b - a + range_j
            still_s = (after.time_ns - moved_ns[part]) / 1e9
            if grown_j == 0 and still_s >= STUCK_S:
                raise UnavailableError(f"the counter stood still at {a:g} J for {still_s:.3g} s")
            if grown_j > MOST_W * max(passed_s, update_s):
                raise UnavailableError(f"the counter went from {a:g} to {b:g} J within {passed_s:.3g} s")
            if grown_j:
                moved_ns[part] = after.time_ns
            total_j += grown_j
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
        self._read = read
        self._samples: list[Sample] = []
        self._error: str | None = None
        self._one_at_a_time = native("_thread", "allocate_lock")()
        self._take()
        self._thread = PeriodicThread(self._take_more, period_s, max_share=1.0, first_s=period_s)

    def _take(self) -> None:
        # A value that is stamped after a later one would look as if the counter had wrapped around, which is 260 kJ.
        with self._one_at_a_time:
            try:
                values = self._read()
            except UnavailableError as error:
                self._error = str(error)
            else:
                self._samples.append(Sample(time.monotonic_ns(), values))

    def _take_more(self) -> None:
        if self._error is None:
            self._take()

    def stop(self) -> tuple[list[Sample], str | None]:
        """Take the last sample and return all of them in order, with what went wrong."""
        self._thread.stop()
        self._take()
        return sorted(self._samples), self._error


class Meter:
    """Reads joules over a window; `ranges_j` are the counters' wrap-around points, None for a meter of power.

    `check` says of a window why it cannot be trusted, where the readings themselves do not show it.
    """

    def __init__(
        self,
        source: Source,
        boundary: Boundary,
        read: Callable[[], tuple[float, ...]],
        *,
        ranges_j: Sequence[float] | None,
        period_s: float | None = None,
        check: Check = lambda _from, _until: None,
    ) -> None:
        self.source, self.boundary = source, boundary
        self.read, self._ranges_j = read, ranges_j
        """Reads every part once: joules so far, or watts. Raises UnavailableError."""
        self._period_s = period_s or (POWER_PERIOD_S if ranges_j is None else COUNTER_PERIOD_S)
        self._check = check
        self._sampling: _Sampling | None = None
        self.samples: list[Sample] = []
        """Readings of the window that was ended last."""

    @property
    def counts(self) -> bool:
        """Return True if it counts joules instead of measuring watts."""
        return self._ranges_j is not None

    def joules(self, samples: Sequence[Sample]) -> float:
        """The energy between the first and the last sample. Raises UnavailableError."""
        if self._ranges_j is None:
            return integrated_joules(samples)
        return counted_joules(samples, self._ranges_j, UPDATE_S[self.source])

    def start(self) -> None:
        """Begin a window; an open one is given up."""
        if self._sampling is not None:
            self._sampling.stop()
        self._sampling = _Sampling(self.read, self._period_s)

    def stop(self) -> EnergyReading:
        """End the window. Raises RuntimeError when none was begun."""
        if self._sampling is None:
            raise RuntimeError("Meter.stop() without start()")
        self.samples, error = self._sampling.stop()
        self._sampling = None
        return self.evaluate(self.samples, error)

    @property
    def resolved_s(self) -> float:
        """Shortest part of a window whose energy the readings tell."""
        return max(REFRESHES * UPDATE_S[self.source], 2 * self._period_s)

    def joules_until(self, times_ns: Sequence[float]) -> list[float]:
        """Return the energy from the last window's start until each time, between two readings in proportion."""
        samples = self.samples
        steps = [self.joules(pair) for pair in itertools.pairwise(samples)]
        cumulated = list(itertools.accumulate(steps, initial=0.0))
        return [float(each) for each in np.interp(times_ns, [sample.time_ns for sample in samples], cumulated)]

    def evaluate(self, samples: Sequence[Sample], error: str | None = None) -> EnergyReading:
        """Add up the samples of a window; `error` is the failure that happened while they were taken."""
        window_s = (samples[-1].time_ns - samples[0].time_ns) / 1e9 if samples else 0.0
        found = (window_s, len(samples), self.source, self.boundary)
        try:
            if error is not None:
                raise UnavailableError(error)
            joules = self._judged(samples, window_s)
        except UnavailableError as why:
            return EnergyReading(None, None, *found, f"{self.source}: {why}")
        return EnergyReading(joules, joules / window_s, *found)

    def _judged(self, samples: Sequence[Sample], window_s: float) -> float:
        """The joules of a window. Raises UnavailableError where the meter does not tell."""
        update_s = UPDATE_S[self.source]
        if window_s < REFRESHES * update_s:
            raise UnavailableError(
                f"it is refreshed every {update_s:g} s, {window_s / update_s:.0f} times in {window_s:.3g} s: "
                f"{REFRESHES} refreshes are needed, so measure for {REFRESHES * update_s:g} s or more"
            )
        if (why := self._check(samples[0].time_ns, samples[-1].time_ns)) is not None:
            raise UnavailableError(why)
        joules = self.joules(samples)
        if joules <= 0:
            raise UnavailableError(f"it did not move within {window_s:.3f} s: measure a longer window")
        return joules
