"""The kinds of load that a run can put on its target. Times are in seconds, rates in requests/s."""

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct

from servemark.documents import texts
from servemark.documents.fields import LOADS, MEASURED, QUALITY, RUN, Count, File, NotNegative, Positive, option
from servemark.errors import OptionError
from servemark.quantities import RATES, SECONDS

AUTO: Literal["auto"] = texts.AUTO
MAX_STAGES = 50
NO_PAUSE = (0.0, 0.0)
MIN_CV, MAX_CV, DEFAULT_CV = 0.1, 10.0, 2.0
STAGES_EXAMPLE = 'write it like --stages "10:100,10:400" (seconds:rate)'
SAME_WARMUP_S = 3.0
"""Warm-up of `auto` where several runs share one length of it (s)."""


class Distribution(StrEnum):
    """Distribution of the gaps between arrivals."""

    POISSON = "poisson"
    CONSTANT = "constant"
    GAMMA = "gamma"


Duration = Annotated[
    Positive,
    option(
        "Measured seconds; a closed loop goes on while its answers are too few.",
        units=SECONDS,
        commands=MEASURED,
        in_web_ui=True,
    ),
]
WarmUp = Annotated[
    Annotated[float, Meta(ge=0)] | Literal["auto"],
    option(
        "Seconds of warm-up, which no figure counts; auto: until the latency is steady.",
        read=texts.warm_up,
        write=texts.numbers_text,
        metavar="S",
        commands=MEASURED,
        in_web_ui=True,
    ),
]
Gaps = Annotated[
    Distribution,
    option(
        "Gaps between arrivals: poisson, constant or gamma (bursts).",
        name="request_distribution",
        metavar="D",
        in_web_ui=True,
    ),
]
GammaCv = Annotated[
    Annotated[float, Meta(ge=MIN_CV, le=MAX_CV)] | None,
    option("gamma: stdev/mean of the gaps; 1 is Poisson, 2 if not given.", metavar="CV", in_web_ui=True),
]


class Stage(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Part of a schedule: `rate` requests/s for `duration_s`; a rate of 0 is a pause.

    With `to_rate` it is a ramp: the rate changes evenly from `rate` to that.
    """

    duration_s: Annotated[Positive, option("Length of the stage (s).", units=SECONDS)]
    rate: Annotated[NotNegative, option("Arrivals per second.", units=RATES)]
    to_rate: Annotated[
        Annotated[float, Meta(ge=0)] | None, option("Arrivals per second at the end of a ramp.", units=RATES)
    ] = None

    @property
    def end_rate(self) -> float:
        """Rate at its end."""
        return self.rate if self.to_rate is None else self.to_rate

    @property
    def mean_rate(self) -> float:
        """Mean rate: its arrivals are `mean_rate * duration_s` in the mean."""
        return (self.rate + self.end_rate) / 2

    def rate_at(self, elapsed_s: float) -> float:
        """Return the rate at a number of seconds after its start."""
        return self.rate + (self.end_rate - self.rate) * min(elapsed_s / self.duration_s, 1.0)


class _Load(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """One kind of load."""


class ClosedLoop(_Load, frozen=True, kw_only=True, tag="closed-loop"):
    """`concurrency` users: each sends its next request when one is answered, after a think time where there is one."""

    concurrency: Annotated[
        Count,
        option("Closed loop: requests in flight, 1 if not given.", commands=LOADS | {QUALITY}, locust_dest="num_users"),
    ] = 1
    think_time_s: Annotated[
        tuple[Annotated[float, Meta(ge=0)], Annotated[float, Meta(ge=0)]],
        option(
            "Closed loop: pause of each user before the next request, drawn evenly if a range.",
            read=texts.think_time,
            write=texts.think_time_text,
            metavar="S[:S]",
            in_web_ui=True,
        ),
    ] = NO_PAUSE
    duration_s: Duration = 15.0
    warmup: WarmUp = AUTO

    def __post_init__(self) -> None:
        if self.think_time_s[0] > self.think_time_s[1]:
            raise OptionError(
                f"--think-time {texts.think_time_text(self.think_time_s)} ends before it begins",
                fix="--think-time LEAST:MOST",
            )


class ConstantRate(_Load, frozen=True, kw_only=True, tag="constant-rate"):
    """An open loop at one rate."""

    rate: Annotated[
        Positive, option("Open loop: requests/s, sent by the clock.", name="request_rate", units=RATES, in_web_ui=True)
    ]
    distribution: Gaps = Distribution.POISSON
    gamma_cv: GammaCv = None
    duration_s: Duration = 15.0
    warmup: WarmUp = AUTO

    def __post_init__(self) -> None:
        _check_gaps(self)


class Stages(_Load, frozen=True, kw_only=True, tag="stages"):
    """An open loop whose rate changes in steps and ramps, which add up to its duration."""

    stages: Annotated[
        tuple[Stage, ...],
        option(
            "Open loop in steps and ramps, seconds:rate, like 10:100,10:100-400.",
            read=lambda what, given: texts.stages(what, given, Stage),
            write=texts.stages_text,
            metavar="S:R[-R],...",
            in_web_ui=True,
        ),
    ]
    distribution: Gaps = Distribution.POISSON
    gamma_cv: GammaCv = None
    warmup: WarmUp = AUTO

    def __post_init__(self) -> None:
        if len(self.stages) > MAX_STAGES:
            raise OptionError(f"--stages has {len(self.stages)} stages, at most {MAX_STAGES}", fix="join some")
        if not any(stage.mean_rate for stage in self.stages):
            raise OptionError(f"--stages {texts.stages_text(self.stages)!r} sends nothing", fix=STAGES_EXAMPLE)
        _check_gaps(self)


class Trace(_Load, frozen=True, kw_only=True, tag="trace"):
    """An open loop whose arrivals a file names."""

    file: Annotated[
        File, option("Open loop from a CSV or JSONL file of arrival times.", name="arrival_trace", in_web_ui=True)
    ]
    speed: Annotated[
        Positive,
        option("Replay speed factor of a trace; 1 if not given.", name="trace_speed", metavar="X", in_web_ui=True),
    ] = 1.0
    warmup: WarmUp = AUTO


class MaxRate(_Load, frozen=True, kw_only=True, tag="max-rate"):
    """A search for the highest rate that meets the objectives, by open loops at one rate each."""

    bounds: Annotated[
        tuple[float, float] | Literal["auto"],
        option(
            "Search for the highest rate that meets --slo.",
            name="max_rate",
            read=texts.bounds,
            write=texts.numbers_text,
            metavar="[LOW:HIGH]",
            commands={RUN},
            of_locust=False,
        ),
    ] = AUTO
    distribution: Gaps = Distribution.POISSON
    gamma_cv: GammaCv = None
    duration_s: Duration = 15.0
    warmup: WarmUp = AUTO
    despite_busy: Annotated[
        bool,
        option(
            "Go on searching although other work disturbs each of the first three runs.",
            commands={RUN},
            of_locust=False,
        ),
    ] = False

    def __post_init__(self) -> None:
        _check_gaps(self)

    def at(self, rate: float) -> ConstantRate:
        """Return the load of one of its runs. All have the same warm-up: near the limit `auto` might never end."""
        warmup = SAME_WARMUP_S if self.warmup == AUTO else self.warmup
        return ConstantRate(
            rate=rate, distribution=self.distribution, gamma_cv=self.gamma_cv, duration_s=self.duration_s, warmup=warmup
        )


SingleLoad = ClosedLoop | ConstantRate | Stages | Trace
Load = SingleLoad | MaxRate


def _check_gaps(load: ConstantRate | Stages | MaxRate) -> None:
    if load.gamma_cv is not None and load.distribution is not Distribution.GAMMA:
        raise OptionError("--gamma-cv belongs to gamma arrivals", fix="add --request-distribution gamma")
