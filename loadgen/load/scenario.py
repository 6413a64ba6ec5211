"""The load that a run puts on its target: the arrivals of the load that its request asks for."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from loadgen.load.arrivals import schedule, staged
from loadgen.load.trace import Trace, read_trace
from loadgen.load.warm_up import longest_s
from servemark.documents import load as documents
from servemark.documents.load import AUTO, DEFAULT_CV, SAME_WARMUP_S, Distribution, Stage
from servemark.errors import OptionError
from servemark.results.constraints import MAX_WINDOWS, SHORTEST_WINDOW_S
from servemark.results.schema.load import Scenario as ScenarioDocument
from servemark.stats.trend import FEWEST

Mode = Literal["closed", "open", "stages", "trace"]
MAX_SCHEDULED = 20_000_000
"""A schedule is made whole, ahead of time; one of this length takes about 1 GB of memory."""

Schedule = npt.NDArray[np.int64]


class StageNow(NamedTuple):
    """The stage that goes on: its number, its start in seconds from the interval's, and its rate."""

    number: int
    start_s: float
    rate: float


@dataclass(frozen=True)
class Scenario(ABC):
    """One run's load. Times in seconds, rates in requests/s."""

    mode: ClassVar[Mode]
    """Label of its live metrics."""
    lower: ClassVar[str] = "lower --request-rate"
    """The remedy where the generator is too slow for it."""
    longer: ClassVar[str] = "raise --duration"
    """The remedy where more requests are needed."""
    load: documents.SingleLoad

    @property
    def relief(self) -> str:
        """The remedy where the server is too slow for it."""
        return f"{self.lower}, tune the server, or serve with more instances"

    @property
    @abstractmethod
    def rate(self) -> float:
        """Mean rate of the measured interval; 0 for a closed loop."""

    @property
    @abstractmethod
    def duration_s(self) -> float:
        """Seconds of the measured interval."""

    @property
    def auto_warmup(self) -> bool:
        """Tell whether the warm-up ends by itself."""
        return self.load.warmup == AUTO

    @property
    def warmup_s(self) -> float:
        """Seconds of the warm-up; the most of them where it ends by itself."""
        return longest_s(self.duration_s) if isinstance(self.load.warmup, str) else self.load.warmup

    @property
    def warmup_rate(self) -> float:
        """Rate of the warm-up."""
        return self.rate

    def stage_at(self, elapsed_s: float) -> StageNow:  # noqa: ARG002 - one stage, whenever
        """The stage at a number of seconds after the start of the measured interval; a load without stages is one."""
        return StageNow(0, 0.0, self.rate)

    def schedule(self, seed: int) -> Schedule | None:
        """Every arrival in ns from the start of the warm-up, made from the seed; None for a closed loop.

        Those of the measured interval are the same after any warm-up, but for the time at which they begin.
        """
        measured = self.measured_schedule(seed)
        if measured is None:
            return None
        whole: Schedule = np.concatenate([self.warmup_schedule(seed), measured + int(self.warmup_s * 1e9)])
        return whole

    @abstractmethod
    def measured_schedule(self, seed: int) -> Schedule | None:
        """The arrivals of the measured interval in ns from its start; None for a closed loop."""

    def warmup_schedule(self, seed: int) -> Schedule:
        """The arrivals before it, which have random numbers of their own."""
        return schedule(*self._gaps(self.warmup_rate, self.warmup_s), (seed, 1), cv=self.cv)

    def _gaps(self, rate: float, duration_s: float) -> tuple[Distribution, float, float]:
        return self.distribution or Distribution.POISSON, rate, duration_s

    @property
    def distribution(self) -> Distribution | None:
        """Distribution of the gaps between arrivals; None where there is no choice."""
        return None if isinstance(self.load, documents.ClosedLoop | documents.Trace) else self.load.distribution

    @property
    def cv(self) -> float:
        """stdev/mean of gamma's gaps."""
        given = None if isinstance(self.load, documents.ClosedLoop | documents.Trace) else self.load.gamma_cv
        return DEFAULT_CV if given is None else given

    def samples(self, seed: int) -> list[int] | None:  # noqa: ARG002 - a trace's warm-up comes from it
        """The sample that each arrival of the schedule sends, -1 for any; None where no trace says so."""
        return None

    @property
    def windows_per_stage(self) -> list[int]:
        """Number of windows of each stage, of at least 0.5 s each; one entry where there are no stages."""
        return [_windows(self.duration_s, MAX_WINDOWS)]

    @property
    def window_edges_s(self) -> tuple[float, ...]:
        """Boundaries of the windows from the interval's start, so that none straddles two stages; () for equal ones."""
        return ()

    def to_dict(self) -> ScenarioDocument:
        """As result.json holds it."""
        return {
            "gamma_cv": self.cv if self.distribution is Distribution.GAMMA else None,
            "duration_s": self.duration_s,
            "measured_s": None,
            "warmup_s": None if self.auto_warmup else self.warmup_s,
            "trace": None,
        }


@dataclass(frozen=True)
class ClosedLoop(Scenario):
    """`concurrency` requests in flight at any time: the next one goes out when one is answered."""

    mode: ClassVar[Mode] = "closed"
    lower = "lower --concurrency"
    load: documents.ClosedLoop

    @property
    def rate(self) -> float:
        return 0.0

    @property
    def duration_s(self) -> float:
        return self.load.duration_s

    def measured_schedule(self, seed: int) -> None:  # noqa: ARG002 - there is none
        return None


@dataclass(frozen=True)
class ConstantRate(Scenario):
    """An open loop at one rate."""

    mode: ClassVar[Mode] = "open"
    load: documents.ConstantRate

    @property
    def rate(self) -> float:
        return self.load.rate

    @property
    def duration_s(self) -> float:
        return self.load.duration_s

    def measured_schedule(self, seed: int) -> Schedule:
        return schedule(*self._gaps(self.rate, self.duration_s), seed, cv=self.cv)


@dataclass(frozen=True)
class Stages(Scenario):
    """An open loop whose rate changes in steps and ramps, which add up to its duration."""

    mode: ClassVar[Mode] = "stages"
    lower = "lower the rates of --stages"
    longer = "lengthen the stages"
    load: documents.Stages

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The steps in order."""
        return self.load.stages

    @cached_property
    def duration_s(self) -> float:
        return sum(stage.duration_s for stage in self.stages)

    @property
    def rate(self) -> float:
        return sum(stage.duration_s * stage.mean_rate for stage in self.stages) / self.duration_s

    @property
    def warmup_rate(self) -> float:
        # A pause warms nothing.
        return next((stage.rate or stage.mean_rate for stage in self.stages if stage.mean_rate), 0.0)

    def stage_at(self, elapsed_s: float) -> StageNow:
        start_s = 0.0
        for number, stage in enumerate(self.stages):
            if elapsed_s < start_s + stage.duration_s or number == len(self.stages) - 1:
                break
            start_s += stage.duration_s
        return StageNow(number, start_s, stage.rate_at(max(elapsed_s - start_s, 0.0)))

    def measured_schedule(self, seed: int) -> Schedule:
        return staged(self.load.distribution, self.stages, seed, cv=self.cv)

    @property
    def windows_per_stage(self) -> list[int]:
        # In a scenario of many stages up to 6, which is enough to tell whether a stage was steady.
        most = MAX_WINDOWS if len(self.stages) <= MAX_WINDOWS else FEWEST
        return [_windows(stage.duration_s, most) for stage in self.stages]

    @property
    def window_edges_s(self) -> tuple[float, ...]:
        edges, start = [0.0], 0.0
        for stage, windows in zip(self.stages, self.windows_per_stage, strict=True):
            edges += [start + stage.duration_s * (index + 1) / windows for index in range(windows)]
            start += stage.duration_s
        return tuple(edges)


@dataclass(frozen=True)
class TraceReplay(Scenario):
    """An open loop whose arrivals a trace names; Poisson arrivals at its mean rate warm up."""

    mode: ClassVar[Mode] = "trace"
    lower = "lower --trace-speed"
    longer = "lengthen the trace"
    load: documents.Trace
    trace: Trace

    @property
    def relief(self) -> str:
        # A trace is the load that has to be served.
        return "its busiest seconds need more instances or larger batches: servemark tune, or another machine"

    @property
    def duration_s(self) -> float:
        return self.trace.duration_s

    @property
    def rate(self) -> float:
        return self.trace.rate

    def measured_schedule(self, seed: int) -> Schedule:  # noqa: ARG002 - the trace is what it is
        times_ns: Schedule = np.round(self.trace.times_s * 1e9).astype(np.int64)
        return times_ns

    def samples(self, seed: int) -> list[int] | None:
        if self.trace.samples is None:
            return None
        return [*[-1] * len(self.warmup_schedule(seed)), *self.trace.samples.tolist()]

    def to_dict(self) -> ScenarioDocument:
        return {**super().to_dict(), "trace": self.trace.to_dict()}


def scenario_of(load: documents.Load) -> Scenario:
    """Make the scenario of a load; the trace is read. Raises OptionError, InputDataError."""
    scenario: Scenario
    match load:
        case documents.ClosedLoop():
            scenario = ClosedLoop(load)
        case documents.ConstantRate():
            scenario = ConstantRate(load)
        case documents.Stages():
            scenario = Stages(load)
        case documents.Trace():
            scenario = TraceReplay(load, read_trace(Path(load.file), load.speed))
        case documents.MaxRate():
            raise OptionError("a search for the highest rate is not one load", fix="give the rate of a run")
    if scenario.rate * scenario.duration_s + scenario.warmup_rate * scenario.warmup_s > MAX_SCHEDULED:
        flag = scenario.lower.rpartition(" ")[2]
        raise OptionError(
            f"{flag} for {scenario.warmup_s + scenario.duration_s:g} s is more than {MAX_SCHEDULED:,} requests",
            fix=f"lower {flag} or --duration",
        )
    return scenario


def same_warmup(load: documents.Load) -> documents.Load:
    """Return the load for one of several runs that have the same warm-up: a fixed one."""
    return msgspec.structs.replace(load, warmup=SAME_WARMUP_S) if load.warmup == AUTO else load


def _windows(duration_s: float, most: int) -> int:
    return max(1, min(most, math.floor(duration_s / SHORTEST_WINDOW_S)))
