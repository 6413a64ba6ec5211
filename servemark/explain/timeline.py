"""Each request's steps, by its own stamps and the server's: arrays of equal length, one place for each request."""

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
MISSING = 0
"""Stamp of a step that nobody has seen."""


@dataclass(frozen=True)
class Sent:
    """Requests as the load generator saw them, in ns; `number` is the one that their ids end with."""

    number: Times
    due: Times
    begun: Times
    """Beginning of a connection of its own, or of the request where one was free."""
    sent: Times
    done: Times
    good: Flags

    def only(self, chosen: Flags) -> Self:
        """The chosen requests."""
        return type(self)(*(getattr(self, each.name)[chosen] for each in fields(self)))


@dataclass(frozen=True)
class Served:
    """The same requests in the server, in ns: `queued` to `ended`. MISSING where it wrote no trace of one."""

    queued: Times
    """In the model's queue."""
    started: Times
    """Taken by an instance, with all of its batch."""
    input_end: Times
    output_start: Times
    ended: Times
    """Answers of the batch are complete."""

    def only(self, chosen: Flags) -> Self:
        """The chosen requests."""
        return type(self)(*(getattr(self, each.name)[chosen] for each in fields(self)))


@dataclass(frozen=True)
class Batches:
    """Executions in the order of their start; `of` is each request's."""

    start: Times
    end: Times
    size: Times
    """Requests that were executed together."""
    of: Times

    @classmethod
    def recognised(cls, served: Served) -> Self:
        """Requests that started and ended together: the backend stamps a batch as a whole."""
        pairs = np.stack([served.started, served.ended], axis=1)
        found, of, size = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
        return cls(found[:, 0], found[:, 1], size.astype(np.int64), of.reshape(-1).astype(np.int64))

    @cached_property
    def service(self) -> Times:
        """Each batch's time on its instance (ns)."""
        return self.end - self.start

    @cached_property
    def usual(self) -> Floats:
        """Median service of the batches of each one's size (ns)."""
        found = np.zeros(len(self.size))
        for size in np.unique(self.size):
            found[self.size == size] = np.median(self.service[self.size == size])
        return found

    def usual_at(self, size: int) -> float:
        """Median service of a size (ns), on the line between its neighbours; beyond the largest it grows as before."""
        sizes, first = np.unique(self.size, return_index=True)
        known = self.usual[first]
        if size <= sizes[-1] or len(sizes) == 1:
            return float(np.interp(size, sizes, known) if size <= sizes[-1] else known[-1] * size / sizes[-1])
        slope = max((known[-1] - known[0]) / (sizes[-1] - sizes[0]), 0.0)
        return float(known[-1] + slope * (size - sizes[-1]))


@dataclass(frozen=True)
class Machine:
    """Readings of this machine in short intervals: stamps (ns), and counters (ns) that only grow."""

    at: Times
    server_cpu: Times
    """CPU time of all of the server's processes."""
    waited: Times
    """Time for which the server's threads wanted a core and had none: in each interval that of the worst."""
    others: Times
    """CPU time of neither the server nor the load generator, all cores together."""
    busy: Times
    """CPU time of everybody."""
    stolen: Times
    """Time that other virtual machines took, all cores together."""
    cores: int

    @classmethod
    def none(cls) -> Self:
        """Nothing was read: the server runs elsewhere."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(*[nothing] * 6, 0)


@dataclass(frozen=True)
class Setup:
    """The queue of a model, as it is configured; sizes are requests."""

    instances: int = 1
    max_batch: int = 1
    """Largest number of requests that are executed together; 1: no dynamic batching."""
    delay_ns: int = 0
    """Longest wait for a batch to fill: the queue delay."""
    preferred: tuple[int, ...] = ()


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
        machine = Machine(*(held[f"machine_{each.name}"] for each in fields(Machine)[:-1]), int(held["machine_cores"]))
        served = Served(*(held[f"served_{each.name}"] for each in fields(Served))) if "served_ended" in held else None
    return sent, served, machine
