"""The energy meters of this machine while a run goes on: power of the last second, and joules since the start."""

import time
from collections import deque
from collections.abc import Callable

from servemark.telemetry.energy.meter import Meter, Sample, UnavailableError
from servemark.telemetry.recording import Column, Reading

MEAN_S = 1.0
"""A counter that is refreshed every 100 ms shows its power only over several of its steps."""


class Power:
    """One meter, read on each beat. `power_watts` of a counter is the mean of the last second."""

    def __init__(self, meter: Meter, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._meter, self._clock_ns = meter, clock_ns
        labels = (("boundary", meter.boundary), ("source", meter.source))
        self._watts = Column("power_watts", "watts", labels)
        self._joules = Column("energy_joules_total", "joules", labels, counter=True)
        self._last: deque[tuple[Sample, float]] = deque()
        self._gone: str | None = None

    def read(self) -> Reading:
        if self._gone is not None:
            return dict.fromkeys((self._watts, self._joules), self._gone)
        try:
            sample = Sample(self._clock_ns(), self._meter.read())
        except UnavailableError as error:
            # A counter that comes back has lost what was counted meanwhile.
            self._gone = str(error)
            return dict.fromkeys((self._watts, self._joules), self._gone)
        before = self._last[-1] if self._last else None
        joules = before[1] + self._meter.joules([before[0], sample]) if before else 0.0
        self._last.append((sample, joules))
        while len(self._last) > 2 and sample.time_ns - self._last[1][0].time_ns >= MEAN_S * 1e9:
            self._last.popleft()
        return {self._watts: self._power(sample, joules), self._joules: joules}

    def _power(self, sample: Sample, joules: float) -> float | str:
        if not self._meter.counts:
            return sum(sample.values)
        first, then_j = self._last[0]
        passed_s = (sample.time_ns - first.time_ns) / 1e9
        return (joules - then_j) / passed_s if passed_s > 0 else "a counter's power needs two readings"
