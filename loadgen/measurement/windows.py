"""The measured interval and its windows: where they lie, what was counted in each, and what is on its way in it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from loadgen.driver.event_loop import YIELD_NS
from loadgen.load.load_config import LoadConfig
from servemark.results.constraints import MAX_PROLONGED_WINDOWS
from servemark.results.schema.details import WindowFigures
from servemark.stats.histogram import Histogram
from servemark.stats.unknown import explained, unknown

NO_LIMIT = "no latency objective: --slo"


@dataclass(frozen=True)
class Interval:
    """The measured part of a run and its windows, in ns of the monotonic clock."""

    start: int
    end: int
    windows: int
    edges: tuple[int, ...] = ()
    """Boundaries of the windows, the interval's own included; by default of windows of equal length."""
    by_second: bool = False
    """True if each second is counted as well."""

    def __post_init__(self) -> None:
        if not self.edges:
            edges = tuple(self.start + round(index * self.window_ns) for index in range(self.windows + 1))
            object.__setattr__(self, "edges", edges)

    @property
    def window_ns(self) -> float:
        """Mean length of a window."""
        return (self.end - self.start) / self.windows

    def window(self, index: int) -> tuple[float, float]:
        """Start and length of a window in seconds, from the interval's start."""
        first, last = self.edges[index : index + 2]
        return (first - self.start) / 1e9, (last - first) / 1e9

    def window_of(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The window of each time inside the interval."""
        index = np.searchsorted(np.array(self.edges), times, side="right") - 1
        return np.minimum(index, self.windows - 1)

    def begun_at(self, start: int) -> "Interval":
        """The same at another time."""
        later = start - self.start
        return replace(self, start=start, end=self.end + later, edges=tuple(edge + later for edge in self.edges))

    @property
    def prolonged(self) -> "Interval":
        """One window longer; where there are too many, neighbours are joined first."""
        windows = self.windows // 2 if self.windows == MAX_PROLONGED_WINDOWS else self.windows
        end = self.start + round((self.end - self.start) / windows * (windows + 1))
        return replace(self, end=end, windows=windows + 1, edges=())


class Pauses:
    """Watches the loop's ticks, which come every 5 ms. One that comes late, or takes long, is a pause.

    It needs no look at the machine: a stopped process, a core that others hold, swapped memory and a long collection of
    garbage all show as a tick that is late. Only the part inside the measured interval counts.
    """

    def __init__(self) -> None:
        self.longest_ns = 0
        self._due: int | None = None
        self._begun = 0

    def begin(self, now: int, interval: Interval) -> None:
        """Take the beginning of a tick, which was due at the end of the last one and a rest."""
        if self._due is not None:
            self._note(self._due, now, interval)
        self._begun = now

    def end(self, now: int, interval: Interval) -> None:
        """Take the end of a tick. The loop rests from ticks for as long as one took, and handles requests meanwhile."""
        self._note(self._begun, now, interval)
        self._due = now + max(YIELD_NS, now - self._begun)

    def _note(self, since: int, until: int, interval: Interval) -> None:
        inside = min(until, interval.end) - max(since, interval.start)
        self.longest_ns = max(self.longest_ns, inside)


@dataclass
class Window:
    """Counts of the requests scheduled in one window."""

    latency: Histogram = field(default_factory=Histogram)
    completed: int = 0
    scheduled: int = 0
    errors: int = 0

    def add(self, other: "Window") -> None:
        """Count what another one counted."""
        self.latency.merge(other.latency)
        self.completed += other.completed
        self.scheduled += other.scheduled
        self.errors += other.errors

    @classmethod
    def joined(cls, windows: Sequence["Window"]) -> "Window":
        """Neighbouring windows as one."""
        whole = cls()
        for window in windows:
            whole.add(window)
        return whole

    @classmethod
    def paired(cls, windows: Sequence["Window"]) -> list["Window"]:
        """Half as many, twice as long."""
        return [cls.joined(windows[first : first + 2]) for first in range(0, len(windows), 2)]


@explained
def window_figures(
    start_s: float, length_s: float, latency: Histogram, completed: int, errors: int, limit_ms: float | None
) -> WindowFigures:
    """A window as result.json holds it: the percentiles that its count supports, and how many exceeded the limit.

    `completed` counts the responses that came in it, `latency` those of the requests that were scheduled in it.
    """
    return {
        "start_s": round(start_s, 6),
        "requests_per_s": completed / length_s,
        "count": latency.count,
        "errors": errors,
        "p50_ms": latency.supported(50, "requests"),
        "p90_ms": latency.supported(90, "requests"),
        "p95_ms": latency.supported(95, "requests"),
        "p99_ms": latency.supported(99, "requests"),
        "max_ms": latency.max_ns / 1e6 if latency.count else unknown("no request succeeded"),
        "over_slo": unknown(NO_LIMIT) if limit_ms is None else latency.count_above(limit_ms),
    }


def interval_from(config: LoadConfig, start_ns: int) -> Interval:
    """The measured interval of a schedule that begins then."""
    measured_from = start_ns + int(config.warmup_s * 1e9)
    edges = tuple(measured_from + round(edge * 1e9) for edge in config.scenario.window_edges_s)
    by_second = config.scenario.trace is not None or bool(config.live.at) or config.server.cold_start
    return Interval(measured_from, measured_from + int(config.duration_s * 1e9), config.windows, edges, by_second)


@dataclass(frozen=True)
class Traffic:
    """Requests of the measured interval that were due (`scheduled`) and sent, and all that are on their way now."""

    scheduled: int
    sent: int
    in_flight: int
    backlog: int

    @classmethod
    def of_workers(cls, reports: Iterable[dict[str, int]], scheduled: int | None) -> Self:
        """Add up the workers' reports; `scheduled` replaces theirs if a schedule is more exact."""
        parts = [cls(**report) for report in reports]
        return cls(
            scheduled=sum(part.scheduled for part in parts) if scheduled is None else scheduled,
            sent=sum(part.sent for part in parts),
            in_flight=sum(part.in_flight for part in parts),
            backlog=sum(part.backlog for part in parts),
        )


def scheduled_by(now: int, schedule: npt.NDArray[np.int64], warmup_s: float, interval: Interval) -> int:
    """Count the arrivals of the interval that are due by now; a schedule counts from the start of the warm-up."""
    warmup_ns, elapsed_ns = int(warmup_s * 1e9), max(min(now, interval.end) - interval.start, 0)
    first, last = np.searchsorted(schedule, [warmup_ns, warmup_ns + elapsed_ns])
    return int(last - first)
