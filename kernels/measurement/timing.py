"""Time of one call: calibrated repeats, a distribution, caches hot or cold.

On a CPU `timeit` times blocks of calls of at least a millisecond, as `torch.utils.benchmark` does. That makes blocks
tenfold until its own cost is a ten thousandth: some take half a second, and a second holds too few for a percentile. On
a GPU CUDA events do: they stand in the device's own queue, so the time of Python is none of a block's.
"""

import itertools
import math
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from servemark.results.schema.kernels import KernelTimes
from servemark.stats.unknown import explained, unknown

BUDGET_S = 1.0
"""Time for a kernel (s); on a GPU a block takes at least a thousandth of it, a millisecond."""
SAMPLE_S = 1e-3
"""Shortest time of a block on a CPU (s)."""
MARGIN, GROWTH = 1.2, 10
"""Factor by which a calibrated block is longer, and by which its calls grow at most in one step."""
MIN_SAMPLES = 5
MAX_SAMPLES = 1000
MAX_CALLS = 1 << 12
MIN_BLOCK_S = 1e-4
"""A shorter one would be a clock that stands still."""
WARM_UP_S = 0.1
MIN_TAIL_SAMPLES, LONGER = 20, 2
"""Samples that p5 and p95 need, and the factor by which a case may take longer to have them."""
Call = Callable[[], object]


@dataclass(frozen=True)
class Samples:
    """The times of one call (s): each is the mean of a block of `calls`."""

    seconds: tuple[float, ...]
    calls: int

    @property
    def median(self) -> float:
        """Seconds."""
        return float(np.median(self.seconds))

    @explained
    def document(self) -> KernelTimes:
        """The distribution in ms."""
        ms = np.array(self.seconds) * 1e3
        p5, low, median, high, p95 = np.percentile(ms, [5, 25, 50, 75, 95]).tolist()
        few = f"needs {MIN_TAIL_SAMPLES} samples, has {len(ms)}"
        return {
            "median": median,
            "iqr": high - low,
            "p5": p5 if len(ms) >= MIN_TAIL_SAMPLES else unknown(few),
            "p95": p95 if len(ms) >= MIN_TAIL_SAMPLES else unknown(few),
            "min": float(ms.min()),
            "samples": len(ms),
            "calls_per_sample": self.calls,
        }


def time_on_cpu(call: Call, first_s: float, threads: int, budget_s: float = BUDGET_S) -> Samples:
    """Time a call that took `first_s` at first, on `threads` threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return _blocks(timeit.Timer("call()", globals={"call": call}), first_s, budget_s)
    finally:
        torch.set_num_threads(before)


def _blocks(timer: "timeit.Timer", first_s: float, budget_s: float) -> Samples:
    warm_ups = min(math.ceil(WARM_UP_S / max(first_s, 1e-7)), 100_000)
    if warm_ups > 1:
        timer.timeit(warm_ups)
    calls = 1
    while (block_s := timer.timeit(calls)) < SAMPLE_S:
        wanted = math.ceil(MARGIN * SAMPLE_S * calls / max(block_s, 1e-9))
        calls = max(min(wanted, GROWTH * calls), calls + 1)
    found: list[float] = []
    spent_s = 0.0
    while (
        len(found) < MIN_SAMPLES
        or spent_s < budget_s
        or (len(found) < MIN_TAIL_SAMPLES and spent_s < LONGER * budget_s)
    ):
        block_s = timer.timeit(calls)
        found.append(block_s / calls)
        spent_s += block_s
    return Samples(tuple(found), calls)


class Event(Protocol):
    """Part of `torch.cuda.Event` that is used."""

    def record(self) -> None:
        """Note the time when the device comes to it."""

    def elapsed_time(self, end_event: Self, /) -> float:
        """Milliseconds to another one."""


def time_on_gpu(
    call: Call, event: Callable[[], Event], synchronize: Callable[[], None], budget_s: float = BUDGET_S
) -> Samples:
    """Time a call by events around blocks, all of them in the queue before the first is waited for.

    `event` makes one, `synchronize` waits for the device.
    """

    def blocks(calls: int, count: int) -> list[float]:
        """Return the seconds of each of `count` blocks."""
        edges = [event() for _ in range(count + 1)]
        edges[0].record()
        for edge in edges[1:]:
            for _ in range(calls):
                call()
            edge.record()
        synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in itertools.pairwise(edges)]

    calls = 1
    while (block_s := blocks(calls, 1)[0]) < budget_s / MAX_SAMPLES and calls < MAX_CALLS:
        calls *= 2  # warms up too: clocks rise, libraries choose their algorithm
    block_s = max(block_s, MIN_BLOCK_S)
    blocks(calls, math.ceil(WARM_UP_S / block_s))
    count = min(max(math.ceil(budget_s / block_s), MIN_SAMPLES), MAX_SAMPLES)
    return Samples(tuple(seconds / calls for seconds in blocks(calls, count)), calls)


def rotating(calls: Sequence[Call]) -> Call:
    """One call that takes the next of several each time: by its turn again, others have filled the cache."""
    if len(calls) == 1:
        return calls[0]
    turns = itertools.cycle(calls)

    def call() -> object:
        return next(turns)()

    return call
