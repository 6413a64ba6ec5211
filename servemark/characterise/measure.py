"""One workload on one engine, in a process of its own: a profile of one sample, and times of larger batches."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from servemark.errors import OptionError
from servemark.profiling.engines import loaded
from servemark.profiling.measure import Measured, Order, measure
from servemark.results.schema.characterisation import TimedBatch
from servemark.stats.unknown import explained, unknown
from servemark.workload import Arrays

ENGINE_S = 20.0
"""About how long a workload takes on an engine, with one larger batch (s); AIBench's took 17 on average."""
LONGEST_S = 40.0
"""Longest time that a batch may take by the time of one sample; a larger one is left out."""
FEWEST, MOST = 3, 200
"""Rounds of a batch, after one that does not count."""


@dataclass(frozen=True)
class Timed:
    """The profile of one sample, and the times of all batches."""

    profile: Measured
    batches: list[TimedBatch]


def measure_batches(order: Order, batches: Sequence[int]) -> Timed:
    """Profile one sample and time the batches. Raises what the engine raises where it cannot be loaded, OptionError."""
    measured = measure(replace(order, batch_size=1))
    alone_ms = measured.cost["plain_ms"]
    found: list[TimedBatch] = [{"batch_size": 1, "ms": alone_ms, "rounds": measured.cost["rounds"]}]
    if batches:
        engine = loaded(order.entry, order.device)
        found += [_timed(engine.run, replace(order, batch_size=batch), alone_ms) for batch in batches]
    return Timed(measured, found)


@explained
def _timed(run: Callable[[Arrays], Arrays], order: Order, alone_ms: float) -> TimedBatch:
    batch = order.batch_size
    expected_s = alone_ms * batch * (1 + FEWEST) / 1e3
    if expected_s > LONGEST_S:
        reason = f"it would take {expected_s:.0f} s by the time of one sample"
        return {"batch_size": batch, "ms": unknown(reason), "rounds": 0}
    try:
        inputs = order.inputs()
        run(inputs)
        times: list[float] = []
        begun = time.perf_counter()
        while len(times) < FEWEST or (len(times) < MOST and time.perf_counter() - begun < order.rounds_s):
            start = time.perf_counter()
            run(inputs)
            times.append(time.perf_counter() - start)
    except (OptionError, RuntimeError, MemoryError, ValueError) as error:
        return {"batch_size": batch, "ms": unknown(str(error).partition("\n")[0][:300]), "rounds": 0}
    return {"batch_size": batch, "ms": statistics.median(times) * 1e3, "rounds": len(times)}
