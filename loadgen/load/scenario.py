"""What load a run puts on its target: a closed loop, one rate, stages of several, or a trace."""

import argparse
import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from loadgen.load.arrivals import Distribution, Stage, schedule, staged
from loadgen.load.flags import AUTO
from loadgen.load.trace import Trace, read_trace
from loadgen.load.warm_up import longest_s
from servemark.errors import OptionError
from servemark.quantities import RATES, SECONDS, above, at_least, one_of, optional_number, text_of, whole
from servemark.results.constraints import MAX_WINDOWS, SHORTEST_WINDOW_S
from servemark.results.schema import run as documents
from servemark.stats.trend import FEWEST

MAX_SCHEDULED = 20_000_000
"""A schedule is made whole, ahead of time; one of this length takes about 1 GB of memory."""
MAX_STAGES = 50
DEFAULT_CV = 2.0
MIN_CV, MAX_CV = 0.1, 10.0
SAME_WARMUP_S = 3.0
"""What `--warmup auto` means where all of several runs have the same."""

Schedule = npt.NDArray[np.int64]


class Mode(StrEnum):
    """The kinds of scenario."""

    CLOSED = "closed"
    OPEN = "open"
    STAGES = "stages"
    TRACE = "trace"


@dataclass(frozen=True)
class Gaps:
    """How the gaps between arrivals are distributed; `cv` is stdev/mean of gamma's, which alone has a choice."""

    distribution: Distribution = Distribution.POISSON
    cv: float = DEFAULT_CV

    @classmethod
    def from_options(cls, options: argparse.Namespace) -> Self:
        """Read --request-distribution and --gamma-cv. Raises OptionError."""
        name = one_of("--request-distribution", options.request_distribution, Distribution)
        cv = optional_number("--gamma-cv", options.gamma_cv)
        if cv is None:
            return cls(Distribution(name))
        if name != Distribution.GAMMA:
            raise OptionError("--gamma-cv belongs to gamma arrivals", fix="add --request-distribution gamma")
        if not MIN_CV <= cv <= MAX_CV:
            raise OptionError(
                f"--gamma-cv {cv:g} is not between {MIN_CV:g} and {MAX_CV:g}", fix="1 is Poisson, 2 comes in bursts"
            )
        return cls(Distribution(name), cv)


class StageNow(NamedTuple):
    """The stage that goes on: its number, its start in seconds from the interval's, and its rate."""

    number: int
    start_s: float
    rate: float


@dataclass(frozen=True, kw_only=True)
class Scenario(ABC):
    """One run's load. Times in seconds, rates in requests/s."""

    mode: ClassVar[Mode]
    lower: ClassVar[str] = "lower --request-rate"
    """How it is made a lower load, as a remedy says it."""

    duration_s: float
    warmup_s: float
    """The most seconds where it ends by itself."""
    auto_warmup: bool = False

    @property
    @abstractmethod
    def rate(self) -> float:
        """Mean rate of the measured interval; 0 for a closed loop."""

    @property
    def warmup_rate(self) -> float:
        """Rate of the warm-up."""
        return self.rate

    def stage_at(self, elapsed_s: float) -> StageNow:  # noqa: ARG002 - one stage, whenever
        """The stage so many seconds after the start of the measured interval; a load without stages is one."""
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
        gaps = self._own("gaps") or Gaps()
        return schedule(gaps.distribution, self.warmup_rate, self.warmup_s, (seed, 1), cv=gaps.cv)

    @property
    def with_the_same_warmup(self) -> Self:
        """For one of several runs that have the same warm-up: a fixed one."""
        return replace(self, warmup_s=SAME_WARMUP_S, auto_warmup=False) if self.auto_warmup else self

    def samples(self, seed: int) -> list[int] | None:  # noqa: ARG002 - a trace's warm-up comes from it
        """The sample that each arrival of the schedule sends, -1 for any; None where no trace says so."""
        return None

    @property
    def windows_per_stage(self) -> list[int]:
        """How many windows each stage has, of at least 0.5 s each; one entry where there are no stages."""
        return [_windows(self.duration_s, MAX_WINDOWS)]

    @property
    def window_edges_s(self) -> tuple[float, ...]:
        """Boundaries of the windows from the interval's start, so that none straddles two stages; () for equal ones."""
        return ()

    def options(self) -> dict[str, str]:
        """The flags that make it, by name."""
        made_of = {**self.to_config(), "gamma_cv": self.to_dict()["gamma_cv"]}
        if self.auto_warmup:
            made_of["warmup"] = AUTO
        return {
            name.removesuffix("_s"): value if isinstance(value, str) else text_of(value)
            for name, value in made_of.items()
            if value is not None
        }

    def to_config(self) -> dict[str, Any]:
        """The options it was made of, for the configuration in result.json; None: those of other kinds."""
        gaps, trace = self._own("gaps"), self._own("trace")
        return {
            "concurrency": self._own("concurrency"),
            "request_rate": self._own("request_rate"),
            "request_distribution": gaps and gaps.distribution.value,
            "stages": self._own("stages_text"),
            "trace": trace and str(trace.file),
            "trace_speed": trace and trace.speed,
            "duration_s": self.duration_s,
            "warmup_s": None if self.auto_warmup else self.warmup_s,
        }

    def to_dict(self) -> documents.Scenario:
        """As result.json holds it."""
        gaps, stages, trace = self._own("gaps"), self._own("stages"), self._own("trace")
        gamma = gaps is not None and gaps.distribution is Distribution.GAMMA
        document = {
            "mode": self.mode.value,
            "distribution": gaps and gaps.distribution.value,
            "gamma_cv": gaps.cv if gamma else None,
            "requested_rate": self._own("request_rate"),
            "concurrency": self._own("concurrency"),
            "duration_s": self.duration_s,
            "measured_s": None,
            "warmup_s": None if self.auto_warmup else self.warmup_s,
            "stages": stages and [asdict(stage) for stage in stages],
            "trace": trace and trace.to_dict(),
        }
        return cast(documents.Scenario, document)

    def _own(self, name: str) -> Any:
        """What only some kinds have."""
        return getattr(self, name, None)


@dataclass(frozen=True, kw_only=True)
class ClosedLoop(Scenario):
    """`concurrency` requests in flight at any time: the next one goes out when one is answered."""

    mode = Mode.CLOSED
    lower = "lower --concurrency"
    concurrency: int

    @property
    def rate(self) -> float:
        return 0.0

    def measured_schedule(self, seed: int) -> None:  # noqa: ARG002 - there is none
        return None


@dataclass(frozen=True, kw_only=True)
class ConstantRate(Scenario):
    """An open loop at one rate."""

    mode = Mode.OPEN
    request_rate: float
    gaps: Gaps = Gaps()

    @property
    def rate(self) -> float:
        return self.request_rate

    def measured_schedule(self, seed: int) -> Schedule:
        return schedule(self.gaps.distribution, self.request_rate, self.duration_s, seed, cv=self.gaps.cv)


@dataclass(frozen=True, kw_only=True)
class Stages(Scenario):
    """An open loop whose rate changes in steps, which add up to its duration."""

    mode = Mode.STAGES
    lower = "lower the rates of --stages"
    stages: tuple[Stage, ...]
    gaps: Gaps = Gaps()
    duration_s: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "duration_s", sum(stage.duration_s for stage in self.stages))

    @property
    def rate(self) -> float:
        return sum(stage.duration_s * stage.rate for stage in self.stages) / self.duration_s

    @property
    def warmup_rate(self) -> float:
        # A pause warms nothing.
        return next((stage.rate for stage in self.stages if stage.rate), 0.0)

    def stage_at(self, elapsed_s: float) -> StageNow:
        start_s = 0.0
        for number, stage in enumerate(self.stages):
            if elapsed_s < start_s + stage.duration_s or number == len(self.stages) - 1:
                break
            start_s += stage.duration_s
        return StageNow(number, start_s, stage.rate)

    def measured_schedule(self, seed: int) -> Schedule:
        return staged(self.gaps.distribution, self.stages, seed, cv=self.gaps.cv)

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

    @property
    def stages_text(self) -> str:
        """As --stages takes it."""
        return ",".join(f"{text_of(stage.duration_s)}:{text_of(stage.rate)}" for stage in self.stages)


@dataclass(frozen=True, kw_only=True)
class TraceReplay(Scenario):
    """An open loop whose arrivals a trace names; Poisson arrivals at its mean rate warm up."""

    mode = Mode.TRACE
    lower = "lower --trace-speed"
    trace: Trace
    duration_s: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "duration_s", self.trace.duration_s)

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


def read_scenario(options: argparse.Namespace) -> Scenario:
    """Resolve parsed options; Locust's web UI gives text for what was None. Raises OptionError, InputDataError."""
    rate = optional_number("--request-rate", options.request_rate, RATES)
    if rate is not None and rate <= 0:
        raise OptionError(f"--request-rate {rate:g} must be above 0", fix="leave it out for a closed loop")
    given = {"--request-rate": rate, "--stages": options.stages, "--trace": options.trace}
    named = [flag for flag, value in given.items() if value]
    if len(named) > 1:
        raise OptionError(f"{' and '.join(named)} exclude each other", fix="give one of them")
    duration_s = above("--duration", options.duration, 0, SECONDS)
    auto = options.warmup == AUTO
    warmup_s = 0.0 if auto else at_least("--warmup", options.warmup, 0, SECONDS)
    gaps = Gaps.from_options(options)
    speed = optional_number("--trace-speed", options.trace_speed)
    if speed is not None and (speed <= 0 or not options.trace):
        raise OptionError(f"--trace-speed {speed:g} is no speed of a trace", fix="above 0, and with --trace FILE")
    scenario: Scenario
    if options.trace:
        scenario = TraceReplay(trace=read_trace(Path(options.trace), speed or 1.0), warmup_s=warmup_s)
    elif options.stages:
        scenario = Stages(stages=parse_stages(options.stages), gaps=gaps, warmup_s=warmup_s)
    elif rate is not None:
        scenario = ConstantRate(request_rate=rate, gaps=gaps, duration_s=duration_s, warmup_s=warmup_s)
    else:
        # Locust's own --users is None where it was not given.
        users = 1 if options.num_users in (None, "") else whole("--concurrency", options.num_users, 1)
        scenario = ClosedLoop(concurrency=users, duration_s=duration_s, warmup_s=warmup_s)
    if auto:
        scenario = replace(scenario, warmup_s=longest_s(scenario.duration_s), auto_warmup=True)
    if scenario.rate * scenario.duration_s + scenario.warmup_rate * scenario.warmup_s > MAX_SCHEDULED:
        raise OptionError(
            f"{named[0]} for {scenario.warmup_s + scenario.duration_s:g} s is more than {MAX_SCHEDULED:,} requests",
            fix=f"lower {named[0]} or --duration",
        )
    return scenario


def parse_stages(text: str) -> tuple[Stage, ...]:
    """Read "10:100,10:400" (seconds:rate). Raises OptionError."""
    example = 'write it like --stages "10:100,10:400" (seconds:rate)'
    stages = []
    for part in text.split(","):
        duration, separator, rate = part.strip().partition(":")
        if not separator:
            raise OptionError(f"--stages: {part.strip()!r} is not SECONDS:RATE", fix=example)
        seconds = above("--stages: seconds", duration, 0, SECONDS)
        stages.append(Stage(seconds, at_least("--stages: rate", rate, 0, RATES)))
    if len(stages) > MAX_STAGES:
        raise OptionError(f"--stages has {len(stages)} stages, at most {MAX_STAGES}", fix="join some")
    if not any(stage.rate for stage in stages):
        raise OptionError(f"--stages {text!r} sends nothing", fix=example)
    return tuple(stages)


def _windows(duration_s: float, most: int) -> int:
    return max(1, min(most, math.floor(duration_s / SHORTEST_WINDOW_S)))
