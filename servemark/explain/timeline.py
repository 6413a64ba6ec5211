"""Each request's steps, by its own stamps and the server's, the machine beside them, and time in which something held.

Arrays of requests have equal lengths, one place for each request. Time in which something held is a function that only
grows: overlaps with many intervals are two look-ups each.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
AROUND_NS = 250_000_000
"""The cores count in ticks of 10 ms: the share of other work is taken over this time, before and after."""
LEAST_SHARE = 0.1
"""Less other work than this share of the used time is not told apart from the error of ticks."""
STALL_READINGS, STALL_NS = 5, 50_000_000
"""Readings this many periods and this long apart: the thread that reads, which comes first, had no core either."""


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


@dataclass(frozen=True)
class Cumulated:
    """A function of time, linear between its `at` (ns), constant outside."""

    at: Times
    total: Floats

    @classmethod
    def of_spans(cls, starts: Times, ends: Times) -> Self:
        """Time within spans (ns), which are in order and do not overlap."""
        edges = np.stack([starts, ends], axis=1).reshape(-1)
        lengths = np.stack([np.zeros(len(starts)), ends - starts], axis=1).reshape(-1)
        return cls(edges, np.cumsum(lengths))

    def within(self, starts: Times, ends: Times) -> Floats:
        """Return by how much it grows in each interval."""
        if not len(self.at):
            return np.zeros(len(starts))
        grown: Floats = np.interp(ends, self.at, self.total) - np.interp(starts, self.at, self.total)
        return grown


def at_least(count: int, starts: Times, ends: Times) -> Cumulated:
    """Time in which at least `count` of the spans (ns) are open."""
    at = np.concatenate([starts, ends])
    step = np.repeat([1, -1], len(starts))
    # At one time an end comes before a start: an instance takes the next batch, a connection the next request.
    order = np.lexsort((step, at))
    at, open_ = at[order], np.cumsum(step[order])
    length = np.where(open_[:-1] >= count, np.diff(at), 0)
    return Cumulated(at, np.concatenate([[0.0], np.cumsum(length, dtype=float)]))


def other_share(machine: Machine) -> Floats:
    """The share of the used CPU time around each interval that neither server nor load generator used."""
    if len(machine.at) < 2:
        return np.zeros(0)
    before = np.searchsorted(machine.at, machine.at[1:] - AROUND_NS)
    after = np.minimum(np.searchsorted(machine.at, machine.at[1:] + AROUND_NS), len(machine.at) - 1)
    busy = machine.busy[after] - machine.busy[before]
    others = machine.others[after] - machine.others[before]
    share: Floats = np.clip(others / np.maximum(busy, 1), 0.0, 1.0)
    return np.where(share < LEAST_SHARE, 0.0, share)


def other_work(machine: Machine, waited: Times) -> Cumulated:
    """Time for which a thread had no core because of other work, or of other virtual machines.

    `waited` is the machine's counter of waits: of the server's threads, or of the load generator's.
    """
    if len(machine.at) < 2:
        return Cumulated(machine.at, np.zeros(len(machine.at)))
    passed = np.diff(machine.at).astype(float)
    lost = np.diff(waiting(machine, waited).total) * other_share(machine) + np.diff(machine.stolen) / machine.cores
    lost = np.where(stalled(machine), passed, np.minimum(lost, passed))
    return Cumulated(machine.at, np.concatenate([[0.0], np.cumsum(lost)]))


def stalled(machine: Machine) -> Flags:
    """Intervals in which the whole machine stood still: nobody had a core, not even the thread that reads."""
    passed = np.diff(machine.at)
    return passed > max(STALL_READINGS * float(np.median(passed)), STALL_NS)


def waiting(machine: Machine, waited: Times) -> Cumulated:
    """Time for which a thread had no core."""
    passed = np.diff(machine.at).astype(float)
    return Cumulated(machine.at, np.concatenate([[0.0], np.cumsum(_spread(np.diff(waited).astype(float), passed))]))


def _spread(waited: Floats, passed: Floats) -> Floats:
    """Put waits where they were: the kernel counts one when it ends, so a long one began intervals before."""
    found, carried = waited.copy(), 0.0
    for place in range(len(found) - 1, -1, -1):
        whole = found[place] + carried
        found[place] = min(whole, passed[place])
        carried = whole - found[place]
    return found
