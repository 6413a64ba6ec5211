"""Reads this machine's meters at a fixed rate while a run goes on: CPU, memory, GPUs, power."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import psutil

from servemark.results.schema.run import SeriesOf
from servemark.telemetry.energy import BOUNDARIES, open_meter
from servemark.telemetry.energy.meter import Meter, Sample, UnavailableError
from servemark.telemetry.energy.sources import open_boards
from servemark.telemetry.os_threads import Cost, PeriodicThread
from servemark.telemetry.recording import Column, Reading, Recording

MEAN_S = 1.0
"""A counter that is refreshed every 100 ms shows its power only over several of its steps."""
CPU = Column("cpu_utilization_ratio", "ratio")
STOLEN = Column("cpu_stolen_ratio", "ratio")
"""CPU time taken by other virtual machines."""
MEMORY = Column("memory_used_bytes", "bytes")
_FIRST = "a share needs two readings"
THROTTLE_REASONS = {
    "sw_power_cap": "nvmlClocksThrottleReasonSwPowerCap",
    "hw_slowdown": "nvmlClocksThrottleReasonHwSlowdown",
    "sw_thermal": "nvmlClocksThrottleReasonSwThermalSlowdown",
    "hw_thermal": "nvmlClocksThrottleReasonHwThermalSlowdown",
    "hw_power_brake": "nvmlClocksThrottleReasonHwPowerBrakeSlowdown",
}
"""Reasons for lower clocks. An idle board and clocks set by the user do not count as throttling."""

Source = Callable[[], Reading]
"""Function that is called on each beat: the figures now, or why there are none."""
Query = tuple[tuple[Column, ...], Callable[[], Sequence[float]]]


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
        """Read power and energy, or why there are none."""
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


class Host:
    """Shares of all cores since the reading before, and the memory that is not available."""

    def __init__(self) -> None:
        self._before: Any = None

    def read(self) -> Reading:
        """Read the shares and the memory."""
        times, self._before, before = (found := psutil.cpu_times()), found, self._before
        memory = psutil.virtual_memory()
        busy, stolen = (_FIRST, _FIRST) if before is None else _shares(before, times)
        return {CPU: busy, STOLEN: stolen, MEMORY: float(memory.total - memory.available)}


def _shares(before: Any, times: Any) -> tuple[float | str, float | str]:
    """The shares of the time between two readings that were busy, and stolen."""
    passed = {name: getattr(times, name) - getattr(before, name) for name in times._fields}
    # A guest's time is part of the user's.
    whole_s = sum(seconds for name, seconds in passed.items() if not name.startswith("guest"))
    if whole_s <= 0:
        return "the kernel's clock ticks did not move", "the kernel's clock ticks did not move"
    stolen_s = passed["steal"]
    busy_s = whole_s - passed["idle"] - passed["iowait"] - stolen_s
    return min(max(busy_s / whole_s, 0.0), 1.0), min(max(stolen_s / whole_s, 0.0), 1.0)


class Gpus:
    """GPU boards by NVML: all that CUDA_VISIBLE_DEVICES leaves, or those with these numbers in CUDA.

    Raises UnavailableError.
    """

    def __init__(self, gpus: Sequence[int] | None = None, nvml: ModuleType | None = None) -> None:
        self._nvml, boards = open_boards(nvml, gpus)
        self._queries = [self._queries_of(board) for board in boards]
        self._gone: dict[int | tuple[Column, ...], str] = {}
        """Places of boards and columns of queries that nothing more comes from, and why. A handle has no hash."""

    def read(self) -> Reading:
        """Read all boards."""
        found: dict[Column, float | str] = {}
        for place, queries in enumerate(self._queries):
            for columns, query in queries:
                found |= self._read(place, columns, query)
        return found

    def _read(self, place: int, columns: tuple[Column, ...], query: Callable[[], Sequence[float]]) -> Reading:
        for gone in (place, columns):
            if gone in self._gone:
                return dict.fromkeys(columns, self._gone[gone])
        try:
            return dict(zip(columns, query(), strict=True))
        except self._nvml.NVMLError as error:
            reason = f"NVML: {error}"
            code = getattr(error, "value", None)
            if code == self._nvml.NVML_ERROR_GPU_IS_LOST:
                self._gone[place] = reason
            elif code == self._nvml.NVML_ERROR_NOT_SUPPORTED:
                self._gone[columns] = reason
            return dict.fromkeys(columns, reason)

    def _queries_of(self, board: Any) -> list[Query]:
        nvml, sensor = self._nvml, self._nvml.NVML_TEMPERATURE_GPU
        labels = (("gpu", str(nvml.nvmlDeviceGetIndex(board))),)
        masks = {name: getattr(nvml, constant) for name, constant in THROTTLE_REASONS.items()}

        def one(name: str, unit: str, query: Callable[[], float]) -> Query:
            return (Column(f"gpu_{name}", unit, labels),), lambda: (query(),)

        def throttled() -> list[float]:
            reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(board)
            return [float(bool(reasons & mask)) for mask in masks.values()]

        throttle_columns = tuple(Column("gpu_throttled", "ratio", (*labels, ("reason", name))) for name in masks)
        return [
            one("utilization_ratio", "ratio", lambda: nvml.nvmlDeviceGetUtilizationRates(board).gpu / 100),
            one("memory_used_bytes", "bytes", lambda: nvml.nvmlDeviceGetMemoryInfo(board).used),
            one("power_watts", "watts", lambda: nvml.nvmlDeviceGetPowerUsage(board) / 1000),
            one("temperature_celsius", "celsius", lambda: nvml.nvmlDeviceGetTemperature(board, sensor)),
            one("sm_clock_hertz", "hertz", lambda: nvml.nvmlDeviceGetClockInfo(board, nvml.NVML_CLOCK_SM) * 1e6),
            (throttle_columns, throttled),
        ]


class Sampler:
    """Sources that are read together, and what they said: the newest values, and all of them in a bounded series.

    One that raises ends nothing: its figures are null from there until it answers again.
    """

    def __init__(
        self, name: str, sources: Mapping[str, Source], period_s: float, *, absent: Mapping[str, str] | None = None
    ) -> None:
        self.name, self.period_s = name, period_s
        self._absent = dict(absent or {})
        """Meters that could not be opened, with the reasons."""
        self._sources = sources
        self._columns: dict[str, tuple[Column, ...]] = {}
        self._troubles: dict[str, str] = {}
        """By source: the columns of its last figures, and the error that it raised last."""
        self._recording = Recording()
        self._latest: dict[Column, float] = {}
        self._beat: PeriodicThread | None = None

    def start(self) -> None:
        """Begin to read, in a thread of its own."""
        self._beat = PeriodicThread(self.read, self.period_s)

    def stop(self) -> None:
        """Read no more. Nobody waits for a reading that goes on."""
        if self._beat is not None:
            self._beat.stop()

    def read(self) -> None:
        """Read every source once."""
        now_s = time.monotonic()
        found: dict[Column, float | str] = {}
        for name, source in self._sources.items():
            try:
                reading = source()
                self._columns[name] = tuple(reading)
            except Exception as error:  # one may fail in ways that nobody thought of
                words = str(error) if isinstance(error, UnavailableError) else f"{type(error).__name__}: {error}"
                self._troubles[name] = words
                reading = dict.fromkeys(self._columns.get(name, ()), words)
            found |= reading
        self._latest = {column: value for column, value in found.items() if not isinstance(value, str)}
        self._recording.add(now_s, found)

    def latest(self) -> Mapping[Column, float]:
        """The newest value of each column that has one; any thread may ask."""
        return self._latest

    @property
    def cpu_s(self) -> float:
        """CPU time that the reading has taken."""
        return self._beat.cost.cpu_s if self._beat is not None else 0.0

    @property
    def absent(self) -> dict[str, str]:
        """Return the sources that could not be opened or never answered, with the reasons."""
        silent = [name for name in self._sources if name in self._troubles and not self._columns.get(name)]
        return self._absent | {name: self._troubles[name] for name in silent}

    def to_dict(self, start_s: float) -> SeriesOf:
        """The series so far as series.json holds it, its times from `start_s` of the monotonic clock."""
        cost = self._beat.cost if self._beat is not None else Cost()
        recorded = self._recording.to_dict()
        recorded["time_s"] = [round(time_s - start_s, 6) for time_s in recorded["time_s"]]
        return {
            "source": self.name,
            "period_s": self.period_s,
            "readings_per_point": self._recording.readings_per_point,
            "readings": cost.beats,
            "skipped": cost.skipped,
            "cpu_s": round(cost.cpu_s, 6),
            "longest_ms": round(cost.longest_s * 1e3, 3),
            "absent": self.absent,
            **recorded,
        }


def open_sampler(rate_hz: float, gpus: Sequence[int] | None = None, meters: Sequence[Meter] = ()) -> Sampler:
    """This machine's sampler: all that can be read here, of GPUs those with these numbers in CUDA, or all.

    `meters` are those of the user.
    """
    absent: dict[str, str] = {}
    sources: dict[str, Source] = {}

    def add(name: str, build: Callable[[], Host | Gpus]) -> None:
        try:
            sources[name] = build().read
        except UnavailableError as error:
            absent[name] = str(error)

    add("host", Host)
    add("gpu", lambda: Gpus(gpus))
    for boundary in BOUNDARIES:
        meter, reason = open_meter(boundary, gpus=gpus)
        if meter is None:
            absent[boundary] = str(reason)
        else:
            sources[boundary] = Power(meter).read
    sources |= {meter.source: Power(meter).read for meter in meters}
    return Sampler("machine", sources, 1 / rate_hz, absent=absent)
