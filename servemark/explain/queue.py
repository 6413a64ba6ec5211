"""The queue of a model: its setup, the batches that it made, and its replay with other arrivals, services or setups.

The replay is a discrete-event simulation of Triton's scheduler ("Dynamic Batcher", Triton's user guide): first come,
first served; a free instance takes what waits, up to the largest batch, and with a queue delay only once a preferred
batch is full or the oldest request has waited that long.
"""

import functools
import heapq
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from servemark.explain.timeline import Flags, Floats, Served, Times

Service = Callable[[int, int], float]
"""Service time (ns) of a batch: when it starts, and its size."""
FEWEST_OF_SIZE = 5
"""Executions of a batch size that say what it usually takes."""


@dataclass(frozen=True)
class Setup:
    """The queue of a model, as it is configured, and the limit before it; sizes are requests."""

    instances: int = 1
    max_batch: int = 1
    """Largest number of requests that are executed together; 1: no dynamic batching."""
    delay_ns: int = 0
    """Longest wait for a batch to fill: the queue delay."""
    preferred: tuple[int, ...] = ()
    in_flight: int = sys.maxsize
    """Most requests that the load generator has in flight: others wait for an answer."""
    answer_surplus: int = 0
    """Bytes that an answer has more than its request."""
    samples: int = 1
    """Samples of a request, which a Triton configuration counts."""

    @property
    def wanted(self) -> int:
        """A batch of this size waits no longer."""
        return max((size for size in self.preferred if size <= self.max_batch), default=self.max_batch)


@dataclass(frozen=True)
class Batches:
    """Executions in the order of their start; `of` is each request's."""

    start: Times
    end: Times
    size: Times
    """Requests that were executed together."""
    of: Times
    first: Times
    """When the oldest request of each was queued."""
    handover: float = 0.0
    """Usual time from the end of a batch to the start of the next that waits for it (ns): the instance is not free."""

    @classmethod
    def recognised(cls, served: Served, delay_ns: int = 0) -> Self:
        """Requests that started and ended together: the backend stamps a batch as a whole."""
        pairs = np.stack([served.started, served.ended], axis=1)
        found, of, size = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
        of = of.reshape(-1).astype(np.int64)
        first = np.full(len(found), np.iinfo(np.int64).max)
        np.minimum.at(first, of, served.queued)
        return cls(found[:, 0], found[:, 1], size.astype(np.int64), of, first, _handover(found, first + delay_ns))

    @functools.cached_property
    def service(self) -> Times:
        """Each batch's time on its instance (ns)."""
        return self.end - self.start

    @functools.cached_property
    def usual(self) -> "Usual":
        """Usual service of each size (ns)."""
        return Usual(self.size, self.service.astype(float))

    @functools.cached_property
    def changed(self) -> Flags:
        """Executions whose size is another than that of the one before."""
        return np.concatenate([[False], self.size[1:] != self.size[:-1]])

    def cost_of_change(self) -> float | None:
        """Measure how much longer a batch takes whose size is another than the one before (ns), on one instance.

        None where no size was executed often enough both after its own and after another. Of several sizes it is the
        mean, each with the weight of its rarer kind.
        """
        size, service, changed = self.size[1:], self.service[1:].astype(float), self.changed[1:]
        costs, weights = list[float](), list[int]()
        for each in np.unique(size):
            after, same = service[(size == each) & changed], service[(size == each) & ~changed]
            if min(len(after), len(same)) >= FEWEST_OF_SIZE:
                costs.append(float(np.median(after) - np.median(same)))
                weights.append(min(len(after), len(same)))
        return float(np.average(costs, weights=weights)) if costs else None


def _handover(batches: Times, ready: Times) -> float:
    """Median gap before batches that were `ready` (ns) when the last one before them ended; 0 where there are few."""
    ends = np.sort(batches[:, 1])
    place = np.searchsorted(ends, batches[:, 0], side="right") - 1
    before = ends[np.maximum(place, 0)]
    waited = (place >= 0) & (ready < before)
    gaps = batches[waited, 0] - before[waited]
    return float(np.median(gaps)) if len(gaps) >= FEWEST_OF_SIZE else 0.0


class Usual:
    """Usual time of executions by batch size: the median of a size, where it was executed often enough.

    Others lie between those; beyond the smallest and the largest, the line through everything that was executed goes
    on. Sizes that hardly differ cannot tell how: their line starts from no time for no requests, with the weight of one
    execution. One slow execution of a rare size is not what that size usually takes: a rare one is as fast as its line
    at the least.
    """

    def __init__(self, sizes: Times, times: Floats) -> None:
        found, counts = np.unique(sizes, return_counts=True)
        medians = np.array([float(np.median(times[sizes == size])) for size in found])
        often = counts >= FEWEST_OF_SIZE if (counts >= FEWEST_OF_SIZE).any() else np.arange(len(found)) == 0
        self._sizes, self._known = found[often], medians[often]
        # No larger batch takes less, so that larger ones tell how long a rare one takes at most.
        medians = np.where(often, medians, np.minimum.accumulate(medians[::-1])[::-1])
        self._rare: dict[int, float] = dict(zip(found[~often].tolist(), medians[~often].tolist(), strict=True))
        mean = float(np.average(found, weights=counts))
        self.proportional = float((counts * (found - mean) ** 2).sum()) < mean**2
        """Sizes hardly differed: what others take is an estimate."""
        in_proportion = float(self._known[0] / self._sizes[0])
        points = [*zip(found, medians, counts, strict=True), *[(0, 0.0, 1)] * self.proportional]
        line_sizes, line_times, weights = map(np.array, zip(*points, strict=True))
        slope = float(np.polyfit(line_sizes, line_times, 1, w=np.sqrt(weights))[0])
        # An execution takes some time whatever the size.
        self._slope = min(max(slope, 0.0), in_proportion)

    def at(self, size: int) -> float:
        """Return the usual time of a size."""
        beyond = min(size - int(self._sizes[0]), 0) + max(size - int(self._sizes[-1]), 0)
        line = float(np.interp(size, self._sizes, self._known)) + self._slope * beyond
        return min(line, self._rare.get(size, line))

    def each(self, sizes: Times) -> Floats:
        """Return that of each size of many."""
        found, of = np.unique(sizes, return_inverse=True)
        known: Floats = np.array([self.at(int(size)) for size in found])[of.reshape(-1)]
        return known


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
