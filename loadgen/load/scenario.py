"""The load that a run puts on its target: the arrivals of the load that its request asks for."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from loadgen.load import trace as traces
from loadgen.load.arrivals import schedule, staged
from loadgen.load.warm_up import longest_s
from servemark.documents.load import (
    AUTO,
    DEFAULT_CV,
    SAME_WARMUP_S,
    ClosedLoop,
    ConstantRate,
    Distribution,
    Load,
    MaxRate,
    SingleLoad,
    Stage,
    Stages,
    Trace,
)
from servemark.errors import OptionError
from servemark.results.constraints import MAX_WINDOWS, SHORTEST_WINDOW_S
from servemark.results.schema.run import Scenario as ScenarioDocument
from servemark.stats.trend import FEWEST

MAX_SCHEDULED = 20_000_000
"""A schedule is made whole, ahead of time; one of this length takes about 1 GB of memory."""
Schedule = npt.NDArray[np.int64]


class StageNow(NamedTuple):
    """The stage that goes on: its number, its start in seconds from the interval's, and its rate."""

    number: int
    start_s: float
    rate: float


class Words(NamedTuple):
    """The words of a kind of load."""

    mode: Literal["closed", "open", "stages", "trace"]
    """Label of its live metrics."""
    lower: str
    """The remedy where the generator is too slow for it."""
    longer: str
    """The remedy where more requests are needed."""


WORDS: dict[type[SingleLoad], Words] = {
    ClosedLoop: Words("closed", "lower --concurrency", "raise --duration"),
    ConstantRate: Words("open", "lower --request-rate", "raise --duration"),
    Stages: Words("stages", "lower the rates of --stages", "lengthen the stages"),
    Trace: Words("trace", "lower --trace-speed", "lengthen the trace"),
}


@dataclass(frozen=True)
class Scenario:
    """One run's load, with the trace that it replays, if any. Times in seconds, rates in requests/s."""

    load: SingleLoad
    trace: traces.Trace | None = None

    @property
    def words(self) -> Words:
        """Its label and its remedies."""
        return WORDS[type(self.load)]

    @property
    def question(self) -> str:
        """Ask whether the load is the one that was meant, where it looks like another; "" if not."""
        if self.trace is None or not isinstance(self.load, Trace) or self.load.speed != 1:
            return ""
        if not self.trace.may_be_milliseconds:
            return ""
        return (
            f"--arrival-trace {self.load.file} lasts {self.duration_s:,.0f} s for {len(self.trace.times_s):,} "
            "arrivals: milliseconds? Then add --trace-speed 1000"
        )

    @property
    def relief(self) -> str:
        """The remedy where the server is too slow for it."""
        if self.trace:  # the load that has to be served
            return "its busiest seconds need more instances or larger batches: servemark tune, or another machine"
        return f"{self.words.lower}, tune the server, or serve with more instances"

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The steps in order; a load without steps is one, a trace at its mean rate, a closed loop at none."""
        match self.load:
            case Stages():
                return self.load.stages
            case ConstantRate():
                return (Stage(self.load.duration_s, self.load.rate),)
            case ClosedLoop():
                return (Stage(self.load.duration_s, 0.0),)
        assert self.trace is not None
        return (Stage(self.trace.duration_s, self.trace.rate),)

    @cached_property
    def rate(self) -> float:
        """Mean rate of the measured interval; 0 for a closed loop."""
        first, *others = self.stages
        if not others:
            return first.mean_rate
        return sum(stage.duration_s * stage.mean_rate for stage in self.stages) / self.duration_s

    @cached_property
    def duration_s(self) -> float:
        """Seconds of the measured interval."""
        return sum(stage.duration_s for stage in self.stages)

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
        """Rate of the warm-up. A pause warms nothing."""
        return next((stage.rate or stage.mean_rate for stage in self.stages if stage.mean_rate), 0.0)

    def stage_at(self, elapsed_s: float) -> StageNow:
        """The stage at a number of seconds after the start of the measured interval."""
        start_s = 0.0
        for number, stage in enumerate(self.stages):
            if elapsed_s < start_s + stage.duration_s or number == len(self.stages) - 1:
                break
            start_s += stage.duration_s
        return StageNow(number, start_s, stage.rate_at(max(elapsed_s - start_s, 0.0)))

    def schedule(self, seed: int) -> Schedule | None:
        """Every arrival in ns from the start of the warm-up, made from the seed; None for a closed loop.

        Those of the measured interval are the same after any warm-up, but for the time at which they begin.
        """
        measured = self.measured_schedule(seed)
        if measured is None:
            return None
        whole: Schedule = np.concatenate([self.warmup_schedule(seed), measured + int(self.warmup_s * 1e9)])
        return whole

    def measured_schedule(self, seed: int) -> Schedule | None:
        """The arrivals of the measured interval in ns from its start; None for a closed loop."""
        if isinstance(self.load, ClosedLoop):
            return None
        if self.trace:
            times_ns: Schedule = np.round(self.trace.times_s * 1e9).astype(np.int64)
            return times_ns
        return staged(self.distribution or Distribution.POISSON, self.stages, seed, cv=self.cv)

    def warmup_schedule(self, seed: int) -> Schedule:
        """The arrivals before it, which have random numbers of their own."""
        distribution = self.distribution or Distribution.POISSON
        return schedule(distribution, self.warmup_rate, self.warmup_s, (seed, 1), cv=self.cv)

    @property
    def distribution(self) -> Distribution | None:
        """Distribution of the gaps between arrivals; None where there is no choice."""
        return None if isinstance(self.load, ClosedLoop | Trace) else self.load.distribution

    @property
    def cv(self) -> float:
        """stdev/mean of gamma's gaps."""
        given = None if isinstance(self.load, ClosedLoop | Trace) else self.load.gamma_cv
        return DEFAULT_CV if given is None else given

    def samples(self, seed: int) -> list[int] | None:
        """The sample that each arrival of the schedule sends, -1 for any; None where no trace says so."""
        if self.trace is None or self.trace.samples is None:
            return None
        return [*[-1] * len(self.warmup_schedule(seed)), *self.trace.samples.tolist()]

    @property
    def windows_per_stage(self) -> list[int]:
        """Number of windows of each stage, of at least 0.5 s each; one entry where there are no stages."""
        # In a scenario of many stages up to 6, which is enough to tell whether a stage was steady.
        most = MAX_WINDOWS if len(self.stages) <= MAX_WINDOWS else FEWEST
        return [max(1, min(most, math.floor(stage.duration_s / SHORTEST_WINDOW_S))) for stage in self.stages]

    @property
    def window_edges_s(self) -> tuple[float, ...]:
        """Boundaries of the windows from the interval's start, so that none straddles two stages; () for equal ones."""
        if not isinstance(self.load, Stages):
            return ()
        edges, start = [0.0], 0.0
        for stage, windows in zip(self.stages, self.windows_per_stage, strict=True):
            edges += [start + stage.duration_s * (index + 1) / windows for index in range(windows)]
            start += stage.duration_s
        return tuple(edges)

    def to_dict(self) -> ScenarioDocument:
        """As result.json holds it."""
        return {
            "gamma_cv": self.cv if self.distribution is Distribution.GAMMA else None,
            "duration_s": self.duration_s,
            "measured_s": None,
            "warmup_s": None if self.auto_warmup else self.warmup_s,
            "trace": self.trace.to_dict() if self.trace else None,
        }


def scenario_of(load: Load) -> Scenario:
    """Make the scenario of a load; the trace is read. Raises OptionError, InputDataError."""
    if isinstance(load, MaxRate):
        raise OptionError("a search for the highest rate is not one load", fix="give the rate of a run")
    trace = traces.read_trace(Path(load.file), load.speed) if isinstance(load, Trace) else None
    scenario = Scenario(load, trace)
    if scenario.rate * scenario.duration_s + scenario.warmup_rate * scenario.warmup_s > MAX_SCHEDULED:
        flag = scenario.words.lower.rpartition(" ")[2]
        raise OptionError(
            f"{flag} for {scenario.warmup_s + scenario.duration_s:g} s is more than {MAX_SCHEDULED:,} requests",
            fix=f"lower {flag} or --duration",
        )
    return scenario


def same_warmup(load: Load) -> Load:
    """Return the load for one of several runs that have the same warm-up: a fixed one."""
    return msgspec.structs.replace(load, warmup=SAME_WARMUP_S) if load.warmup == AUTO else load
