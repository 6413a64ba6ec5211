"""The queue, replayed: known arrivals through instances and a dynamic batcher, with measured service times.

A discrete-event simulation of Triton's scheduler ("Dynamic Batcher", Triton's user guide): first come, first served; a
free instance takes what waits, up to the largest batch, and with a queue delay only once a preferred batch is full or
the oldest request has waited that long.
"""

import functools
import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from servemark.explain.timeline import Batches, Floats, Setup, Times

Service = Callable[[int, int], float]
"""Service time (ns) of a batch: when it starts, and its size."""


@dataclass(frozen=True)
class Replayed:
    """Each request's start on an instance, and when that is free again, in ns."""

    start: Times
    end: Times


def replay(queued: Times, setup: Setup, service: Service, *, endless: bool = False) -> Replayed:
    """Run requests, queued at these times (ns), through the configured queue. Their order does not matter.

    `endless`: the load would have gone on, so after its last request no batch waits to be filled.
    """
    order = np.argsort(queued, kind="stable")
    arrivals = queued[order].tolist()
    count = len(arrivals)
    start, end = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    free = [0] * setup.instances
    first = 0
    while first < count:
        ready = max(heapq.heappop(free), arrivals[first])
        begin, size = _next_batch(arrivals, first, ready, setup, endless=endless)
        over = begin + max(round(service(begin, size)), 0)
        places = order[first : first + size]
        start[places], end[places] = begin, over
        heapq.heappush(free, over)
        first += size
    return Replayed(start, end)


def _next_batch(arrivals: list[int], first: int, ready: int, setup: Setup, *, endless: bool) -> tuple[int, int]:
    """Return when an instance that is `ready` begins with the oldest requests, and with how many of them."""
    waiting = _waiting(arrivals, first, ready, setup.max_batch)
    wanted = setup.wanted
    if not setup.delay_ns or waiting >= wanted:
        return ready, max((size for size in setup.preferred if size <= waiting), default=waiting)
    # Whichever comes first: the batch is full, or the oldest has waited long enough.
    until = max(arrivals[first] + setup.delay_ns, ready)
    full = first + wanted - 1
    if full >= len(arrivals):
        until = min(until, max(arrivals[-1], ready)) if endless else until
    elif arrivals[full] <= until:
        return max(arrivals[full], ready), wanted
    return until, _waiting(arrivals, first, until, setup.max_batch)


def _waiting(arrivals: list[int], first: int, now: int, most: int) -> int:
    """Count the requests from `first` on that have come, up to `most`."""
    found = 1
    while found < most and first + found < len(arrivals) and arrivals[first + found] <= now:
        found += 1
    return found


def measured_service(batches: Batches, spared: Floats | None = None) -> Service:
    """The service times of a run: the usual one of a size, times what the batch nearest in time took of its own usual.

    `spared` (ns) is taken off each batch first: time in which the server was paused, or had no core.
    """
    took = batches.service - (0 if spared is None else spared)
    factor = (np.maximum(took, 0) / np.maximum(batches.usual.each(batches.size), 1)).tolist()
    starts, usual = batches.start, functools.cache(batches.usual.at)

    def service(begin: int, size: int) -> float:
        place = int(np.searchsorted(starts, begin))
        if place and (place == len(starts) or begin - starts[place - 1] <= starts[place] - begin):
            place -= 1
        return usual(size) * float(factor[place]) + batches.handover

    return service
