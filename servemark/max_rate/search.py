"""The highest rate that meets a latency objective: bracket, bisect, confirm; every point is a run of full length."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from servemark.results.bottleneck import GENERATOR
from servemark.results.objectives import MET, MISSED
from servemark.results.schema.header import unknown
from servemark.results.schema.run import JudgedObjective, MaxRateSearch, ObjectiveStatus, RatePoint, Result
from servemark.results.verdict import failed_constraints, verdict_words
from servemark.stats.percentiles import samples_needed

START_SHARE = 0.8
"""Where the search starts, as a share of what a short closed loop reached: most objectives lie near it."""
GROWTH = 1.5
"""How far the bracket moves up while a rate is met; down it goes by halves, since a rate far too high tells little."""
TOLERANCE = 0.05
"""The search ends when the lowest rate that failed lies within this share of the highest that was met."""
MAX_RUNS = 20
MAX_RATE_RATIO = 1000
"""A rate so many times below the first is the last that is tried."""

GENERATORS = frozenset({"schedule_delay_p99", "client_cpu"})
"""Constraints of the generator: a run that misses them says nothing about the server."""
BROKEN = frozenset({"completed", "server_alive", "output_agreement"})
"""Constraints that no other rate would fix."""
OVERLOAD = frozenset({"achieved_rate", "error_share"})
"""Constraints that a rate too high for the server misses, besides the objectives."""


Limit = Literal["server", "generator", "broken", "runs", "interrupted"]


@dataclass(frozen=True)
class Point:
    """One run at one rate in requests/s; `failed` names the constraints of its verdict that do not hold."""

    rate: float
    failed: frozenset[str] = frozenset()
    latency_ms: float | None = None
    """Latency at the objectives' highest percentile."""
    objective: ObjectiveStatus = MET
    conclusive: bool = False
    """Whether the generator did not limit this run, however late it was."""
    directory: str | None = None
    result: Result | None = field(default=None, repr=False, compare=False)

    @property
    def valid(self) -> bool:
        """Whether the run was measured well, whatever it found."""
        return not self.failed

    @property
    def met(self) -> bool:
        """Whether the rate was met: a valid run that met its objectives."""
        return self.valid and self.objective == MET

    @property
    def words(self) -> str:
        """Its two answers."""
        return verdict_words(self.failed, self.objective)

    @property
    def generator_limits(self) -> bool:
        """Whether the generator, not the server, is what this rate is too high for."""
        return bool(self.failed & GENERATORS) and not self.conclusive

    @property
    def doubtful(self) -> bool:
        """Whether something else than too high a rate may be the reason: worth a second run before it counts."""
        return self.generator_limits or not (self.met or self.objective == MISSED or self.failed & OVERLOAD)

    def to_dict(self) -> RatePoint:
        """As result.json holds it."""
        return {
            "rate": self.rate,
            "valid": self.valid,
            "objective": self.objective,
            "failed": sorted(self.failed),
            "latency_ms": self.latency_ms,
            "directory": self.directory,
        }


@dataclass(frozen=True)
class MaxRate:
    """What a search found. `best` was met in two runs where `confirmed`; `above` is the lowest rate that failed."""

    best: Point | None
    confirmed: bool
    above: float | None
    limited_by: Limit
    """What ended it: "server", "generator", "broken" (no rate would do), "runs" (used up) or "interrupted"."""
    reason: str
    points: tuple[Point, ...]

    @property
    def rate(self) -> float | None:
        """The rate found, in requests/s."""
        return self.best.rate if self.best else None

    def to_dict(self) -> MaxRateSearch:
        """As result.json holds it."""
        document = {
            **({"rate": self.rate} if self.best else unknown(["rate"], self.reason)),
            "confirmed": self.confirmed,
            "above": self.above,
            "limited_by": self.limited_by,
            "reason": self.reason,
            "points": [point.to_dict() for point in self.points],
        }
        return cast(MaxRateSearch, document)


def lowest_rate(percentile: float, duration_s: float) -> float:
    """The rate below which a Poisson run of `duration_s` may by chance hold too few requests for the percentile."""
    needed = samples_needed(percentile)
    return (needed + 4 * math.sqrt(needed)) / duration_s


def point_of(result: Result, directory: str | None = None) -> Point:
    """Read a load result with an objective, at one rate, as a point of the search."""
    rate = result["scenario"]["requested_rate"]
    assert rate is not None
    return Point(
        rate=rate,
        failed=frozenset(failed_constraints(result["verdict"])),
        latency_ms=_latency_ms(result["verdict"]["objectives"]),
        objective=result["verdict"]["objective"] or MET,
        conclusive=result["limited_by"]["by"] != GENERATOR,
        directory=directory,
        result=result,
    )


def _latency_ms(objectives: Sequence[JudgedObjective]) -> float | None:
    """At the highest percentile of the objectives."""
    timed = [(each["percentile"], each["value"]) for each in objectives if each["figure"] == "latency"]
    return max(timed, key=lambda pair: pair[0] or 0.0, default=(None, None))[1]


def interrupted(points: Sequence[Point]) -> MaxRate:
    """What the points of a search that was cut short say."""
    met = [point for point in points if point.met]
    best = max(met, key=lambda point: point.rate) if met else None
    above = min((p.rate for p in points if not p.met and (best is None or p.rate > best.rate)), default=None)
    return MaxRate(best, False, above, "interrupted", f"cut short after {len(points)} runs", tuple(points))


def search(
    measure: Callable[[float], Point],
    start: float,
    *,
    lowest: float = 0.0,
    tolerance: float = TOLERANCE,
    most_runs: int = MAX_RUNS,
) -> MaxRate:
    """Find the highest rate that `measure`, a run of full length, finds met, in at most `most_runs` runs.

    From `start` the bracket goes up by half or down to the half until one rate is met and another is not; then it is
    bisected (geometrically, since queues grow with the share of capacity) down to `tolerance`. The rate found must be
    met a second time: the best of several noisy runs is a lucky one more often than not. No rate below `lowest` is
    tried, where a run would be too short for its percentile. A doubtful run (unsteady, or the generator's fault) is
    made once more; a generator that is late twice ends the search, for then the server's limit is not known.
    The idea is that of MLPerf LoadGen's FindPeakPerformance mode.
    """
    state = _State(measure, lowest, tolerance, most_runs)
    rate = max(start, lowest)
    while (ended := state.step(rate)) is None:
        rate = state.next_rate()
    return ended


class _State:
    """The bracket of a running search."""

    def __init__(self, measure: Callable[[float], Point], lowest: float, tolerance: float, most_runs: int) -> None:
        self._measure, self._lowest, self._tolerance, self._most_runs = measure, lowest, tolerance, most_runs
        self._points: list[Point] = []
        self._met: list[Point] = []
        """Points that were met below `_above`, ascending."""
        self._above: Point | None = None

    def next_rate(self) -> float:
        """The next rate to try: outwards until there is a bracket, then its middle, then its lower end again."""
        if self._above is None:
            return self._met[-1].rate * GROWTH
        if not self._met:
            return max(self._above.rate / 2, self._lowest)
        low, high = self._met[-1].rate, self._above.rate
        return low if high <= low * (1 + self._tolerance) else math.sqrt(low * high)

    def step(self, rate: float) -> MaxRate | None:
        """Try one rate and narrow the bracket; the answer where the search is over."""
        confirms = bool(self._met) and rate == self._met[-1].rate
        if self._used_up:
            return self._end("runs", f"{self._most_runs} runs were used up{self._bracket()}")
        point = self._run(rate)
        if point.doubtful and not point.failed & BROKEN and not self._used_up:
            point = self._run(rate)
        if point.failed & BROKEN:
            return self._end("broken", f"at {rate:,.4g}/s: {_names(point)}; no other rate would fix this")
        if point.generator_limits:
            least = f"; the server reaches at least {self._met[-1].rate:,.4g}/s" if self._met else ""
            reason = f"the generator, not the server, is the limit at {rate:,.4g}/s ({_names(point)}){least}"
            return self._end("generator", reason)
        return self._fits(point, confirms) if point.met else self._too_high(point, confirms)

    def _fits(self, point: Point, confirms: bool) -> MaxRate | None:
        if confirms:
            return self._end("server", f"met twice{self._bracket()}", confirmed=True)
        self._met.append(point)
        return None

    def _too_high(self, point: Point, confirms: bool) -> MaxRate | None:
        if confirms:
            self._met.pop()
        self._above = point
        if not self._met and point.rate <= max(self._lowest, self._points[0].rate / MAX_RATE_RATIO):
            return self._end("server", f"not met at {point.rate:,.4g}/s, the lowest rate tried ({_names(point)})")
        return None

    @property
    def _used_up(self) -> bool:
        return len(self._points) >= self._most_runs

    def _run(self, rate: float) -> Point:
        point = self._measure(rate)
        self._points.append(point)
        return point

    def _bracket(self) -> str:
        return f"; not met at {self._above.rate:,.4g}/s ({_names(self._above)})" if self._above else ""

    def _end(self, limited_by: Limit, reason: str, *, confirmed: bool = False) -> MaxRate:
        best = self._met[-1] if self._met else None
        above = self._above.rate if self._above else None
        return MaxRate(best, confirmed, above, limited_by, reason, tuple(self._points))


def _names(point: Point) -> str:
    return ", ".join([*sorted(point.failed), *([] if point.objective == MET else [f"objective {point.objective}"])])
