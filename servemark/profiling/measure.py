"""One warm inference on an engine in this process, with and without its profiler in turns."""

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from servemark.errors import OptionError
from servemark.profiling import counters
from servemark.profiling.engines import kind_of, profiler_module
from servemark.profiling.timeline import Inference
from servemark.repository.entry import FULL, Entry
from servemark.results.schema.profile import Counters, ProfilerCost
from servemark.stats.ratios import median_ratio
from servemark.workload import Arrays, get

WARM_UP = 3
"""Most inferences before the first that counts; the profiler's first ones count no more than the engine's."""
ROUNDS = (3, 30)
"""Fewest and most rounds of one inference with the profiler and one without."""


@dataclass(frozen=True)
class Order:
    """One engine to be profiled, and the time for it (s)."""

    workload: str
    engine: str
    repository: Path
    batch_size: int = 1
    precision: str = FULL
    device: str = "cpu"
    rounds_s: float = 5.0

    @property
    def entry(self) -> Entry:
        """The entry of the repository."""
        return Entry(self.repository, self.workload, self.engine, self.precision)

    def inputs(self) -> Arrays:
        """The workload's first request. Raises OptionError for a batch that it cannot have."""
        workload = get(self.workload)
        if self.batch_size > max(workload.max_batch, 1):
            raise OptionError(
                f"{self.workload} takes batches up to {max(workload.max_batch, 1)}, {self.batch_size} was asked for",
                fix=f"use -b {max(workload.max_batch, 1)} or less",
            )
        samples = workload.samples(np.random.default_rng(0))
        return workload.request([next(samples) for _ in range(self.batch_size)])


@dataclass(frozen=True)
class Measured:
    """The inference of the median time, and what its profile cost."""

    provider: str
    profiler: str
    inference: Inference
    cost: ProfilerCost
    counters: Counters


def measure(order: Order) -> Measured:
    """Profile one inference in this process. Raises what the engine raises where it cannot be loaded, OptionError."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler tells of each start and stop
    inputs = order.inputs()
    module = profiler_module(order.engine)
    profiler = module.Profiler(order.entry, order.device, inputs)

    def plain() -> float:
        begun = time.perf_counter()
        profiler.engine.run(inputs)
        return time.perf_counter() - begun

    warm_s = time.perf_counter() + order.rounds_s
    for number in range(WARM_UP):
        if number and time.perf_counter() > warm_s:  # a model of seconds is warm after one
            break
        plain()
        profiler.profiled(inputs)
    profiler.forget()
    fewest, most = ROUNDS
    pairs: list[tuple[float, float]] = []
    begun = time.perf_counter()
    while len(pairs) < fewest or (len(pairs) < most and time.perf_counter() - begun < order.rounds_s):
        if len(pairs) % 2:  # drift hits both alike
            with_it = profiler.profiled(inputs)
            pairs.append((with_it, plain()))
        else:
            without = plain()
            pairs.append((profiler.profiled(inputs), without))
    counted = counters.read(plain, order.device)
    found = sorted(profiler.inferences(), key=lambda each: each.seconds)
    name, median = module.PROFILERS[kind_of(order.device)], found[(len(found) - 1) // 2]
    return Measured(profiler.engine.provider, name, median, _cost(pairs), counted)


def _cost(pairs: Sequence[tuple[float, float]]) -> ProfilerCost:
    ratio = median_ratio(pairs)
    profiled, plain = (statistics.median(each) * 1e3 for each in zip(*pairs, strict=True))
    return {
        "rounds": len(pairs),
        "plain_ms": plain,
        "profiled_ms": profiled,
        "ratio": ratio.value,
        "ci95": None if ratio.low is None or ratio.high is None else [ratio.low, ratio.high],
    }
