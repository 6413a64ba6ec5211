"""Time in which something held, as a function that only grows: overlaps with many intervals are two look-ups each."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from servemark.explain.timeline import Batches, Flags, Floats, Machine, Served, Times

STILL_SHARE = 0.02
"""A process that used less of its time than this stood still."""
SHORTEST_PAUSE_NS = 20_000_000
"""A machine that shares its cores stops everybody for some milliseconds now and then: that is contention."""
STARVED_SHARE = 0.5
"""A server whose threads wanted a core for more of a still stretch than this had none: that is other work."""
PAUSE_SERVICES = 3
"""A pause is longer than so many usual executions, or changes of the batch size: a CPU is idle while a GPU computes."""
AROUND_NS = 250_000_000
"""The cores count in ticks of 10 ms: the share of other work is taken over this time, before and after."""
LEAST_SHARE = 0.1
"""Less other work than this share of the used time is not told apart from the error of ticks."""
STALL_READINGS, STALL_NS = 5, 50_000_000
"""Readings this many periods and this long apart: the thread that reads, which comes first, had no core either."""


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


def pauses(machine: Machine, batches: Batches, served: Served, change_ns: float = 0.0) -> tuple[Times, Times]:
    """Return starts and ends of the server's pauses: its CPU time stood still, and no request made a step.

    Somebody had stopped it, or it executed a batch all the while: a server that waits for requests does not pause, nor
    does one whose threads wait for a core.
    """
    if len(machine.at) < 2 or not len(batches.start):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    still = (np.diff(machine.server_cpu) < STILL_SHARE * np.diff(machine.at)) & ~_stalled(machine)
    edge = np.diff(np.concatenate([[False], still, [False]]).astype(int))
    first, last = machine.at[np.flatnonzero(edge == 1)], machine.at[np.flatnonzero(edge == -1)]
    events = np.sort(np.concatenate([served.queued, served.started, served.ended]))
    # What happened in a still stretch cuts it.
    at = np.unique(np.concatenate([first, last, events]))
    starts, ends = at[:-1], at[1:]
    inside = Cumulated.of_spans(first, last).within(starts, ends) >= 0.999 * (ends - starts)
    least = max(SHORTEST_PAUSE_NS, PAUSE_SERVICES * max(float(np.median(batches.service)), change_ns))
    long = inside & (ends - starts >= least)
    starts, ends = starts[long], ends[long]
    stopped = np.interp(ends, machine.at, machine.stopped) - np.interp(starts, machine.at, machine.stopped) >= 1
    executed = np.array(
        [
            bool(((served.started <= start) & (served.ended >= end)).any())
            for start, end in zip(starts, ends, strict=True)
        ],
        dtype=bool,
    )
    starved = _waiting(machine, machine.waited).within(starts, ends) > STARVED_SHARE * (ends - starts)
    had_work = (executed & ~starved) | stopped
    return starts[had_work], ends[had_work]


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
    lost = np.diff(_waiting(machine, waited).total) * other_share(machine) + np.diff(machine.stolen) / machine.cores
    lost = np.where(_stalled(machine), passed, np.minimum(lost, passed))
    return Cumulated(machine.at, np.concatenate([[0.0], np.cumsum(lost)]))


def _stalled(machine: Machine) -> Flags:
    """Intervals in which the whole machine stood still: nobody had a core, not even the thread that reads."""
    passed = np.diff(machine.at)
    return passed > max(STALL_READINGS * float(np.median(passed)), STALL_NS)


def _waiting(machine: Machine, waited: Times) -> Cumulated:
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
