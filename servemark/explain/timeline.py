"""Each request's steps, by its own stamps and the server's: arrays of equal length, one place for each request."""

import sys
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
FEWEST_OF_SIZE = 5
"""Executions of a batch size that say what it usually takes."""


@dataclass(frozen=True)
class _Columns:
    """Arrays of equal length."""

    def only(self, chosen: Flags) -> Self:
        """The chosen requests."""
        return replace(self, **{each.name: getattr(self, each.name)[chosen] for each in fields(self)})


@dataclass(frozen=True)
class Sent(_Columns):
    """Requests as the load generator saw them, in ns; `number` is the one that their ids end with."""

    number: Times
    due: Times
    begun: Times
    """Beginning of a connection of its own, or of the request where one was free."""
    sent: Times
    done: Times
    good: Flags


@dataclass(frozen=True)
class Served(_Columns):
    """The same requests in the server, in ns: `queued` to `ended`. 0 where it wrote no trace of one."""

    queued: Times
    """In the model's queue."""
    started: Times
    """Taken by an instance, with all of its batch."""
    input_end: Times
    output_start: Times
    ended: Times
    """Answers of the batch are complete."""


@dataclass(frozen=True)
class Batches:
    """Executions in the order of their start; `of` is each request's."""

    start: Times
    end: Times
    size: Times
    """Requests that were executed together."""
    of: Times
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
        return cls(found[:, 0], found[:, 1], size.astype(np.int64), of, _handover(found, first + delay_ns))

    @cached_property
    def service(self) -> Times:
        """Each batch's time on its instance (ns)."""
        return self.end - self.start

    @cached_property
    def usual(self) -> "Usual":
        """Usual service of each size (ns)."""
        return Usual(self.size, self.service.astype(float))

    @cached_property
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
class Machine:
    """Readings of this machine in short intervals: stamps (ns), and counters (ns) that only grow."""

    at: Times
    server_cpu: Times
    """CPU time of all of the server's processes."""
    waited: Times
    """Time for which the server's threads wanted a core and had none: in each interval that of the worst."""
    client_waited: Times
    """The same of the load generator's threads."""
    others: Times
    """CPU time of neither the server nor the load generator, all cores together."""
    busy: Times
    """CPU time of everybody."""
    stolen: Times
    """Time that other virtual machines took, all cores together."""
    stopped: Times
    """Readings in which a process of the server was stopped by a signal or a debugger."""
    cores: int

    @classmethod
    def none(cls) -> Self:
        """Nothing was read: the server runs elsewhere."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(**dict.fromkeys(COUNTERS, nothing), cores=0)


COUNTERS = tuple(each.name for each in fields(Machine) if each.name != "cores")


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


def save(file: Path, sent: Sent, served: Served | None, machine: Machine) -> None:
    """Keep what an explanation is made of."""
    parts = {"sent": sent, "served": served, "machine": machine}
    arrays = {
        f"{name}_{each.name}": getattr(part, each.name)
        for name, part in parts.items()
        if part is not None
        for each in fields(part)
    }
    with file.open("wb") as opened:
        np.savez_compressed(opened, **arrays)


def load(file: Path) -> tuple[Sent, Served | None, Machine]:
    """Read it again. Raises OSError, ValueError, KeyError for a file that is not one."""
    with np.load(file, allow_pickle=False) as held:
        sent = Sent(*(held[f"sent_{each.name}"] for each in fields(Sent)))
        counters = {name: held[f"machine_{name}"] for name in COUNTERS}
        machine = Machine(**counters, cores=int(held["machine_cores"]))
        served = Served(*(held[f"served_{each.name}"] for each in fields(Served))) if "served_ended" in held else None
    return sent, served, machine
