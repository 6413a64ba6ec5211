"""What load a run puts on its target: a closed loop, one rate, stages of several, or a trace."""

import argparse
import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.load.arrivals import Distribution, Stage, schedule, staged
from loadgen.load.trace import Trace, read_trace
from servemark.errors import OptionError
from servemark.quantities import above, at_least, number, optional_number, whole
from servemark.results.constraints import MAX_WINDOWS, TREND_WINDOWS

MAX_SCHEDULED = 20_000_000
"""A schedule is made whole, ahead of time; one of this length takes about 1 GB of memory."""
MAX_STAGES = 50
DEFAULT_CV = 2.0
MIN_CV, MAX_CV = 0.1, 10.0


class Mode(StrEnum):
    """The kinds of scenario."""

    CLOSED = "closed"
    OPEN = "open"
    STAGES = "stages"
    TRACE = "trace"


@dataclass(frozen=True)
class Scenario:
    """One run's load. Times in seconds, rates in requests/s; `stages` is one stage where there is one rate."""

    mode: Mode
    concurrency: int | None
    stages: tuple[Stage, ...]
    trace: Trace | None
    distribution: Distribution
    cv: float
    duration_s: float
    warmup_s: float

    @classmethod
    def from_options(cls, options: argparse.Namespace) -> "Scenario":
        """Resolve Locust's parsed options; the web UI gives text for what was None. Raises OptionError."""
        rate = optional_number("--request-rate", options.request_rate)
        if rate is not None and rate <= 0:
            raise OptionError(f"--request-rate {rate:g} must be above 0", fix="leave it out for a closed loop")
        given = {"--request-rate": rate, "--stages": options.stages, "--trace": options.trace}
        named = [flag for flag, value in given.items() if value]
        if len(named) > 1:
            raise OptionError(f"{' and '.join(named)} exclude each other", fix="give one of them")
        duration_s = above("--duration", options.duration, 0)
        warmup_s = at_least("--warmup", options.warmup, 0)
        distribution = _distribution("--request-distribution", options.request_distribution)
        cv = _cv(options.gamma_cv, distribution)
        trace: Trace | None = None
        stages: tuple[Stage, ...] = ()
        users: int | None = None
        if options.trace:
            mode, trace = Mode.TRACE, read_trace(Path(options.trace))
            duration_s = trace.duration_s
        elif options.stages:
            mode, stages = Mode.STAGES, parse_stages(options.stages)
            duration_s = sum(stage.duration_s for stage in stages)
        elif rate is not None:
            mode, stages = Mode.OPEN, (Stage(duration_s, rate),)
        else:
            # Locust's own --users is None where it was not given.
            given_users = 1 if options.num_users in (None, "") else options.num_users
            mode, users = Mode.CLOSED, whole("--concurrency", given_users, 1)
        scenario = cls(mode, users, stages, trace, distribution, cv, duration_s, warmup_s)
        count = scenario.rate * duration_s + scenario.warmup_rate * warmup_s
        if count > MAX_SCHEDULED:
            raise OptionError(
                f"{named[0]} for {warmup_s + duration_s:g} s is more than {MAX_SCHEDULED:,} requests",
                fix=f"lower {named[0]} or --duration",
            )
        return scenario

    @property
    def request_rate(self) -> float | None:
        """The one rate of an open loop, None where there is none or it changes."""
        return self.stages[0].rate if self.mode is Mode.OPEN else None

    @property
    def rate(self) -> float:
        """Mean rate of the measured interval; 0 for a closed loop."""
        if self.trace is not None:
            return self.trace.rate
        return sum(stage.duration_s * stage.rate for stage in self.stages) / self.duration_s if self.stages else 0.0

    @property
    def warmup_rate(self) -> float:
        """Rate of the warm-up: the first stage's, the mean of a trace."""
        return self.stages[0].rate if self.stages else self.rate

    def schedule(self, seed: int) -> npt.NDArray[np.int64] | None:
        """Every arrival in ns from the start of the warm-up, made from the seed; None for a closed loop."""
        if self.trace is not None:
            measured: npt.NDArray[np.int64] = np.round((self.trace.times_s + self.warmup_s) * 1e9).astype(np.int64)
            whole: npt.NDArray[np.int64] = np.concatenate([self._before_trace(seed), measured])
            return whole
        if not self.stages:
            return None
        first, *rest = self.stages
        if self.mode is Mode.OPEN:
            stages = [Stage(self.warmup_s + first.duration_s, first.rate)]
        else:
            stages = [Stage(self.warmup_s, first.rate), first, *rest]
        return staged(self.distribution, stages, seed, cv=self.cv)

    def samples(self, seed: int) -> list[int] | None:
        """The sample that each arrival of the schedule sends, -1 for any; None where no trace says so."""
        if self.trace is None or self.trace.samples is None:
            return None
        return [*[-1] * len(self._before_trace(seed)), *self.trace.samples.tolist()]

    def _before_trace(self, seed: int) -> npt.NDArray[np.int64]:
        """The warm-up of a trace: Poisson arrivals at its mean rate."""
        return schedule(Distribution.POISSON, self.warmup_rate, self.warmup_s, seed)

    @property
    def windows_per_stage(self) -> list[int]:
        """How many windows each stage has, of at least 1 s each; one entry where there are no stages.

        Up to 10, in a scenario of many stages up to 6, which is enough to tell whether a stage was steady.
        """
        if self.mode is not Mode.STAGES:
            return [_windows(self.duration_s, MAX_WINDOWS)]
        most = MAX_WINDOWS if len(self.stages) <= MAX_WINDOWS else TREND_WINDOWS
        return [_windows(stage.duration_s, most) for stage in self.stages]

    @property
    def window_edges_s(self) -> tuple[float, ...]:
        """Boundaries of the windows from the interval's start, so that none straddles two stages; () for equal ones."""
        if self.mode is not Mode.STAGES:
            return ()
        edges, start = [0.0], 0.0
        for stage, windows in zip(self.stages, self.windows_per_stage, strict=True):
            edges += [start + stage.duration_s * (index + 1) / windows for index in range(windows)]
            start += stage.duration_s
        return tuple(edges)

    def to_config(self) -> dict[str, Any]:
        """The options it was made of, for the configuration in result.json."""
        staged_or_open = self.mode in (Mode.OPEN, Mode.STAGES)
        return {
            "concurrency": self.concurrency,
            "request_rate": self.request_rate,
            "request_distribution": self.distribution.value if staged_or_open else None,
            "stages": self._stages_text if self.mode is Mode.STAGES else None,
            "trace": str(self.trace.file) if self.trace else None,
            "duration_s": self.duration_s,
            "warmup_s": self.warmup_s,
        }

    @property
    def _stages_text(self) -> str:
        return ",".join(f"{stage.duration_s:g}:{stage.rate:g}" for stage in self.stages)

    def to_dict(self) -> dict[str, Any]:
        """As result.json holds it."""
        own = self.mode in (Mode.OPEN, Mode.STAGES)
        return {
            "mode": self.mode.value,
            "distribution": self.distribution.value if own else None,
            "gamma_cv": self.cv if own and self.distribution is Distribution.GAMMA else None,
            "requested_rate": self.request_rate,
            "concurrency": self.concurrency,
            "duration_s": self.duration_s,
            "measured_s": None,
            "warmup_s": self.warmup_s,
            "stages": [asdict(stage) for stage in self.stages] if self.mode is Mode.STAGES else None,
            "trace": self.trace.to_dict() if self.trace else None,
        }


def parse_stages(text: str) -> tuple[Stage, ...]:
    """Read "10:100,10:400" (seconds:rate). Raises OptionError."""
    example = 'write it like --stages "10:100,10:400" (seconds:rate)'
    stages = []
    for part in text.split(","):
        duration, separator, rate = part.strip().partition(":")
        if not separator:
            raise OptionError(f"--stages: {part.strip()!r} is not SECONDS:RATE", fix=example)
        stages.append(Stage(above("--stages: seconds", duration, 0), at_least("--stages: rate", rate, 0)))
    if len(stages) > MAX_STAGES:
        raise OptionError(f"--stages has {len(stages)} stages, at most {MAX_STAGES}", fix="join some")
    if not any(stage.rate for stage in stages):
        raise OptionError(f"--stages {text!r} sends nothing", fix=example)
    return tuple(stages)


def _windows(duration_s: float, most: int) -> int:
    return max(1, min(most, math.floor(duration_s)))


def _distribution(flag: str, value: str) -> Distribution:
    """Read the name of a distribution. Raises OptionError."""
    try:
        return Distribution(value)
    except ValueError:
        raise OptionError(f"{flag} {value!r} is unknown", fix=f"one of: {', '.join(Distribution)}") from None


def _cv(value: object, distribution: Distribution) -> float:
    """Read the coefficient of variation of gamma gaps. Raises OptionError."""
    if value in (None, ""):
        return DEFAULT_CV
    if distribution is not Distribution.GAMMA:
        raise OptionError("--gamma-cv belongs to gamma arrivals", fix="add --request-distribution gamma")
    cv = number("--gamma-cv", value)
    if not MIN_CV <= cv <= MAX_CV:
        raise OptionError(
            f"--gamma-cv {cv:g} is not between {MIN_CV:g} and {MAX_CV:g}", fix="1 is Poisson, 2 comes in bursts"
        )
    return cv
