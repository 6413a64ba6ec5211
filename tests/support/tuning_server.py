"""Servers to tune whose best configuration is known by formula."""

import math
from collections.abc import Callable

import numpy as np

from servemark.results.schema.details import ObjectiveStatus
from servemark.search.points import Point
from servemark.search.trial import Candidate, Objective, Space, Trial

CONFIG = """max_batch_size: 16
dynamic_batching { max_queue_delay_microseconds: 0 preferred_batch_size: [ 4, 16 ] }
instance_group [ { count: 1 kind: KIND_CPU } ]
"""
SPACE = Space.of(CONFIG, cores=4, batch_size=1, largest=16)
PRESENT = SPACE.present
OBJECTIVE = Objective(99, 50.0, 10.0)
SCREEN_S, RUN_S = 4.0, 12.0
PLENTY_S = 10_000.0
REQUESTS = 10_000
"""Of a run at a rate."""
Capacity = Callable[[Candidate], float]


def key(trial: Trial) -> tuple[str, Candidate, float, int]:
    """Tell one trial from another."""
    return trial.stage, trial.candidate, trial.load, trial.number


class Server:
    """A bench over M/M/1 servers, whose p99 is ln(100) / (capacity - rate); a closed loop takes all they can do."""

    def __init__(self, capacity: Capacity, noise: float = 0.0, seed: int = 0) -> None:
        self.capacity, self.noise, self.rng = capacity, noise, np.random.default_rng(seed)
        self.failing: dict[Candidate, str] = {}
        self.generator_above = math.inf
        self.disturbed: Callable[[str, Candidate], bool] = lambda _stage, _candidate: False
        """Tells which runs at a rate other work disturbs; they miss the objective."""
        self.trials: list[Trial] = []
        self.stop_at: int | None = None

    def trial(self, stage: str, candidate: Candidate, load: float, number: int) -> Trial:
        if len(self.trials) == self.stop_at:
            raise KeyboardInterrupt
        self.trials.append(self.measured(stage, candidate, load, number))
        return self.trials[-1]

    def measured(self, stage: str, candidate: Candidate, load: float, number: int) -> Trial:
        capacity = self.capacity(candidate) * (math.exp(self.rng.normal(0, self.noise)) if self.noise else 1.0)
        if candidate in self.failing:
            return Trial(stage, candidate, load, number, 1.0, failure=self.failing[candidate])
        if stage == "screen":
            throughput, limited = min(capacity, self.generator_above), capacity > self.generator_above
            return Trial(stage, candidate, load, number, SCREEN_S, throughput=throughput, generator_limits=limited)
        p99_ms = 1e3 * math.log(100) / (capacity - load) if load < capacity else math.inf
        failed = {"schedule_delay_p99"} if load > self.generator_above else set()
        disturbed = self.disturbed(stage, candidate)
        failed |= {"other_load"} if disturbed else set()
        objective: ObjectiveStatus = "missed" if disturbed or p99_ms > OBJECTIVE.limit_ms else "met"
        known_ms = p99_ms if math.isfinite(p99_ms) else None
        over = round(REQUESTS * min(math.exp((load - capacity) * OBJECTIVE.limit_ms / 1e3), 1.0))
        point = Point(
            load, frozenset(failed), known_ms, objective,
            over=over, requests=REQUESTS, allowed=0.01, directory="somewhere",
        )  # fmt: skip
        limited = point.limit == "generator"
        return Trial(stage, candidate, load, number, RUN_S, point=point, generator_limits=limited)
