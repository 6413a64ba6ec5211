"""Data of the search: candidates and the space of them, a trial, a score, the objective and the outcome."""

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Self, cast

from servemark.repository.model_config import THREADS, Settings, parse
from servemark.results.schema.search import (
    CandidateFigures,
    CandidateSettings,
    Lacked,
    SearchSpace,
)
from servemark.results.schema.search import TuningOutcome as Outcome
from servemark.search.points import Point
from servemark.search.posterior import MaxRate, lowest_rate
from servemark.stats.ratios import Ratio

DELAYS_US = (0, 100, 500, 2000, 5000)
GPU_INSTANCES = (1, 2, 4)
"""On a GPU more instances overlap copies with kernels; past a few they only take memory."""


@dataclass(frozen=True, order=True)
class Candidate:
    """One configuration; without dynamic batching `queue_delay_us` is None.

    `threads` 0 leaves the number to the engine, which takes all cores, half of them if each has two hardware threads,
    or all cores of a machine of which a container has only a few. Therefore 0 cannot be replaced by another number.
    """

    instances: int
    threads: int
    max_batch: int
    queue_delay_us: int | None

    @classmethod
    def of_config(cls, config: str) -> Self:
        """Read a config.pbtxt. Raises ArtifactError if it is malformed."""
        model = parse(config)
        threads = model.parameters[THREADS].string_value if THREADS in model.parameters else "0"
        batching = model.dynamic_batching if model.HasField("dynamic_batching") else None
        return cls(
            instances=max(model.instance_group[0].count, 1) if model.instance_group else 1,
            threads=int(threads) if threads.isdecimal() else 0,
            max_batch=model.max_batch_size,
            queue_delay_us=None if batching is None else batching.max_queue_delay_microseconds,
        )

    def to_dict(self) -> CandidateSettings:
        """Convert to the form of the log and tuning.json."""
        return cast(CandidateSettings, asdict(self))

    def settings(self, present: "Candidate") -> Settings:
        """Return the settings that turn the present configuration into this one."""
        mine, theirs = asdict(self), asdict(present)
        return Settings(**{key: value for key, value in mine.items() if value != theirs[key]})

    def changes(self, present: "Candidate") -> int:
        """Count the settings that differ from the present configuration's."""
        return sum(value != asdict(present)[key] for key, value in asdict(self).items())

    def __str__(self) -> str:
        threads = "all" if self.threads == 0 else str(self.threads)
        if not self.max_batch:
            return f"{self.instances} x {threads} threads, no batch dimension"
        delay = "no batching" if self.queue_delay_us is None else f"delay {self.queue_delay_us} us"
        return f"{self.instances} x {threads} threads, batch {self.max_batch}, {delay}"


Axis = Callable[[Candidate], list[Candidate]]
"""Function from a candidate to those with each value of one setting; it may be among them itself."""


@dataclass(frozen=True)
class Space:
    """The values each setting may take; the present configuration's are always among them."""

    present: Candidate
    layouts: tuple[tuple[int, int], ...]
    """(instances, threads of each)"""
    batches: tuple[int, ...]
    delays_us: tuple[int, ...]

    @classmethod
    def of(cls, config: str, *, cores: int, batch_size: int, largest: int, oversubscribe: bool = False) -> Self:
        """Make the space of a configuration on a machine of `cores` cores.

        `batch_size` is that of a request, which every batch limit must hold; `largest` is the workload's own limit. If
        `oversubscribe` is set, instances times threads may be twice the cores. Raises ArtifactError.
        """
        present, model = Candidate.of_config(config), parse(config)
        on_gpu = bool(model.instance_group) and model.instance_group[0].kind == model.instance_group[0].KIND_GPU
        if on_gpu:
            layouts = [(count, present.threads) for count in GPU_INSTANCES]
        else:
            layouts = _layouts(cores, 2 * cores if oversubscribe else cores)
        mine = (present.instances, present.threads)
        batches = [1 << n for n in range(largest.bit_length()) if batch_size <= 1 << n <= largest]
        batched = present.max_batch > 0
        return cls(
            present=present,
            layouts=tuple(each for each in layouts if each != mine),
            batches=tuple(sorted({*batches, largest}, reverse=True)) if batched else (),
            delays_us=DELAYS_US if batched else (),
        )

    def axes(self) -> tuple[Axis, ...]:
        """Return one axis for each setting; the one that usually matters most is first."""
        return (self._with_layout, self._with_delay, self._with_batch)

    def to_dict(self) -> SearchSpace:
        """Convert to the form of tuning.json."""
        return {
            "present": self.present.to_dict(),
            "layouts": [{"instances": instances, "threads": threads} for instances, threads in self.layouts],
            "batches": list(self.batches),
            "delays_us": list(self.delays_us),
        }

    def _with_layout(self, candidate: Candidate) -> list[Candidate]:
        mine = (self.present.instances, self.present.threads)
        return [replace(candidate, instances=i, threads=t) for i, t in (mine, *self.layouts)]

    def _with_batch(self, candidate: Candidate) -> list[Candidate]:
        return [replace(candidate, max_batch=size) for size in self.batches]

    def _with_delay(self, candidate: Candidate) -> list[Candidate]:
        # A batch of one is full at once and waits for nobody.
        return [replace(candidate, queue_delay_us=delay) for delay in self.delays_us if candidate.max_batch > 1]


def _layouts(cores: int, most: int) -> list[tuple[int, int]]:
    """List instance counts in powers of two, with the threads of each: its share of the cores, or half for Triton."""
    found: list[tuple[int, int]] = []
    for instances in (1 << n for n in range(most.bit_length()) if 1 << n <= most):
        share = max(most // instances, 1)
        for threads in (share, share // 2):
            if 0 < threads <= cores and (instances, threads) not in found:
                found.append((instances, threads))
    return found


@dataclass(frozen=True)
class Trial:
    """One evaluation; `stage` is "screen" (a closed loop), "search" or "round" (an open loop, which has a point)."""

    stage: str
    candidate: Candidate
    load: float
    """Requests in flight in a screening run, else requests/s."""
    number: int
    """Number among the trials of one candidate under one load; the seed follows from it."""
    seconds: float
    """Cost of the trial: loading the model, warm-up and measurement."""
    throughput: float | None = None
    """Answered requests/s of a screen."""
    point: Point | None = None
    failure: str | None = None
    """Reason why the candidate cannot be used, in the server's words."""
    generator_limits: bool = False
    directory: str | None = None


Bench = Callable[[str, Candidate, float, int], Trial]
"""Makes the trial of a stage: the candidate, its load, and the number among its trials of this stage.

A candidate that cannot be loaded or that fails requests gives a trial with a `failure`.
"""


@dataclass(frozen=True)
class Objective:
    """Objective and length of every run."""

    percentile: float
    limit_ms: float
    duration_s: float

    @property
    def lowest(self) -> float:
        """Lowest rate that is tried: below it a run would hold too few requests for the percentile."""
        return lowest_rate(self.percentile, self.duration_s)


@dataclass
class CandidateScore:
    """Figures of one candidate, as far as they are known."""

    candidate: Candidate
    screens: list[float] = field(default_factory=list)
    """Requests/s of each screen."""
    failure: str | None = None
    found: MaxRate | None = None
    rounds: list[float] = field(default_factory=list)
    """The highest rate met in each round."""
    limited: set[str] = field(default_factory=set)
    """Stages in which the generator, not the server, set the limit, so that the server's speed is not known."""

    @property
    def score(self) -> float:
        """Mean throughput of the screens; 0 if the candidate failed."""
        return statistics.geometric_mean(self.screens) if self.screens and not self.failure else 0.0

    @property
    def rate(self) -> float | None:
        """Highest rate that the search found."""
        return self.found.rate if self.found else None

    def to_dict(self) -> CandidateFigures:
        """Convert to the form of tuning.json."""
        return {
            "candidate": self.candidate.to_dict(),
            "text": str(self.candidate),
            "screens_requests_per_s": self.screens,
            "failure": self.failure,
            "max_rate": self.found.to_dict() if self.found else None,
            "latency_ms": self.found.best.latency_ms if self.found and self.found.best else None,
            "rounds_requests_per_s": self.rounds,
            "generator_limited": sorted(self.limited),
        }


@dataclass(frozen=True)
class Tuning:
    """Outcome of a tuning: "better" (with a winner), "same", "missed" (none meets the objective) or "undecided"."""

    outcome: Outcome
    reason: str
    winner: Candidate | None
    ratio: Ratio | None
    """Ratio of the winner's rate to the present one's, None if there were no rounds."""
    standings: tuple[CandidateScore, ...]
    not_tried: tuple[str, ...]
    spent_s: float
    lacked: Lacked | None = None

    def standing(self, candidate: Candidate) -> CandidateScore:
        """Return the score of a candidate that was tried."""
        return next(standing for standing in self.standings if standing.candidate == candidate)
