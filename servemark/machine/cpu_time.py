"""CPU time of this machine's cores: of named process trees, of other work, of other virtual machines.

proc(5): /proc/stat. What is idle is known exactly, since an idle core has no clock ticks; what is busy
is all the rest. Time of interrupts is left out: the network's belongs to the traffic of the run itself.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

from servemark.machine.limits import SYSTEM, cores
from servemark.machine.processes import Table, processes, same, trees

QUIET_SHARE = 0.05
"""A machine is quiet where other work takes at most this share of its cores. A server that uses all of them loses about
as much throughput: half of the 10 % by which windows may differ."""
SHOWN_CORES = 0.02
"""A process that used less is not worth a name."""
NAMED = 3
"""Processes that are named."""
CREDIBLE = 1.5
"""Factor by which a process's own time may exceed the cores' other work, because the cores count in ticks."""
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Fields of a line of /proc/stat, after its name.
_IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = 3, 4, 5, 6, 7


class CannotTell(Exception):  # noqa: N818 - a gap in what is known, with its reason
    """Reason why the machine does not show its use of CPU time."""


@dataclass(frozen=True)
class Snapshot:
    """CPU seconds until now, of each core and of each process: whose a process is may be known later."""

    clock_s: float
    cores_s: Mapping[int, tuple[float, float, float]]
    """Core -> seconds that it was idle, served interrupts, and was taken by other machines."""
    processes: Table


@dataclass(frozen=True)
class CpuUse:
    """Mean cores that were busy between two snapshots; `allowed` of the `watched` ones may be used (a quota)."""

    watched: int
    allowed: float
    groups: Mapping[str, float]
    other: float
    stolen: float
    largest: str | None
    """Up to three processes outside the groups that used the most CPU time, with their cores; "many" where these are
    not most of it. The kernel's own threads are left out: they work for others, and nobody can stop them."""
    members: Mapping[str, str] = field(default_factory=dict)
    """Of each group its roots, and what else of it used cores: the largest, with their cores."""

    @classmethod
    def between(
        cls, first: Snapshot, last: Snapshot, groups: Mapping[str, Iterable[int]], watched: Set[int], allowed: float
    ) -> "CpuUse":
        """Compute the use of the cores between two snapshots, by the roots of each group. Raises CannotTell."""
        passed_s = last.clock_s - first.clock_s
        idle_s, interrupts_s, stolen_s = (
            end - start for start, end in zip(_together(first, watched), _together(last, watched), strict=True)
        )
        stolen_s = max(stolen_s, 0.0)
        found = _trees(first.processes, last.processes, groups)
        # A group's processes may have ended and been waited for by another one.
        groups_s = {
            name: max(_time_s(last.processes, after) - _time_s(first.processes, before), 0.0)
            for name, (before, after) in found.items()
        }
        if passed_s <= 0 or not 0 <= idle_s <= 1.05 * len(watched) * passed_s + 1:
            raise CannotTell("/proc/stat does not tell the idle time of these cores")
        busy_s = len(watched) * passed_s - idle_s - stolen_s - interrupts_s
        other_s = max(busy_s - sum(groups_s.values()), 0.0)
        grown = {
            pid: process.own_s - (first.processes[pid].own_s if same(first.processes, last.processes, pid) else 0.0)
            for pid, process in last.processes.items()
        }

        def named(pids: Iterable[int]) -> str:
            return ", ".join(f"{last.processes[pid].name} (pid {pid}) {grown[pid] / passed_s:.2g}" for pid in pids)

        def largest(pids: Iterable[int]) -> list[int]:
            return sorted(pids, key=lambda pid: -grown[pid])[:NAMED]

        used = {pid for pid, used_s in grown.items() if used_s >= SHOWN_CORES * passed_s}
        # A virtual machine's kernel threads at times show more than the cores were busy: time that the host had.
        credible = {pid for pid in used if grown[pid] <= CREDIBLE * other_s}
        others = largest(credible.difference(*(after for _, after in found.values())))
        words = named(others)
        if others and 2 * sum(grown[pid] for pid in others) < other_s:
            words = f"many, the largest {words}"
        members = {
            name: named(sorted(tree & ({*groups[name]} | {*largest(tree & used)}), key=lambda pid: -grown[pid]))
            for name, (_, tree) in found.items()
        }
        shares = {name: used_s / passed_s for name, used_s in groups_s.items()}
        return cls(len(watched), allowed, shares, other_s / passed_s, stolen_s / passed_s, words or None, members)

    @property
    def other_cpu_share(self) -> float:
        """The share of the allowed cores that other work and other machines took.

        Without a quota all cores are allowed, and this is their share. A quota of 2 of 64 cores loses nothing while 2
        of them are left.
        """
        taken = self.other + self.stolen
        if self.allowed < self.watched:
            taken = max(taken - (self.watched - self.allowed), 0.0)
        return min(taken / self.allowed, 1.0)


class Watch:
    """The cores of this process and of `servers`, and two snapshots of them.

    `groups` names process trees by their roots; a process counts for the first group that has it. Raises CannotTell.
    """

    def __init__(
        self, groups: Mapping[str, Iterable[int]], system: Path = SYSTEM, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._groups = {name: tuple(roots) for name, roots in groups.items()}
        self._system, self._clock = system, clock
        self._cores = set(os.sched_getaffinity(0))
        for pid in {pid for roots in self._groups.values() for pid in roots}:
            try:
                self._cores |= os.sched_getaffinity(pid)
            except OSError as error:
                raise CannotTell(f"process {pid}: {error.strerror}") from error
        self._quota = cores(system).quota
        self._first = self.snapshot()
        _together(self._first, self._cores)

    def add(self, group: str, roots: Iterable[int]) -> None:
        """Count trees that were found since for a group, from the first snapshot on."""
        for pid in {*roots} - {*self._groups[group]}:
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                self._cores |= os.sched_getaffinity(pid)
                self._groups[group] = (*self._groups[group], pid)

    def use(self, last: Snapshot | None = None) -> CpuUse:
        """Return the use of the cores since the watch began, until now or a snapshot. Raises CannotTell."""
        count = float(len(self._cores))
        allowed = count if self._quota is None else min(self._quota, count)
        return CpuUse.between(self._first, last or self.snapshot(), self._groups, self._cores, allowed)

    def snapshot(self) -> Snapshot:
        """Take a snapshot of the machine. Raises CannotTell."""
        clock_s = self._clock()
        try:
            return Snapshot(clock_s, _core_times(self._system), processes(self._system))
        except (OSError, ValueError, IndexError) as error:
            raise CannotTell(f"/proc cannot be read: {error}") from error


def _core_times(system: Path) -> dict[int, tuple[float, float, float]]:
    """Seconds that each core was idle, served interrupts, and was taken by other machines."""
    found = {}
    for line in (system / "proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            idle, interrupts, stolen = (
                sum(int(fields[each]) for each in kinds) * _TICK_S
                for kinds in ((_IDLE, _IOWAIT), (_IRQ, _SOFTIRQ), (_STEAL,))
            )
            found[int(name.removeprefix("cpu"))] = idle, interrupts, stolen
    return found


def _together(snapshot: Snapshot, watched: Set[int]) -> tuple[float, float, float]:
    """Seconds of the watched cores together. Raises CannotTell."""
    shown = watched & snapshot.cores_s.keys()
    if len(shown) != len(watched):
        raise CannotTell(f"/proc/stat shows {len(shown)} of {len(watched)} cores")
    idle_s, interrupts_s, stolen_s = zip(*(snapshot.cores_s[core] for core in watched), strict=True)
    return sum(idle_s), sum(interrupts_s), sum(stolen_s)


def _trees(first: Table, last: Table, groups: Mapping[str, Iterable[int]]) -> dict[str, tuple[set[int], set[int]]]:
    """The processes of each group in two tables: its roots and all that descends from them.

    A process is of the first group that has it. One that has lost its parent in between stays, with its children.
    """
    before = trees(first, groups.values())
    stayed = [{pid for pid in tree if same(first, last, pid)} for tree in before]
    after = trees(last, [{*roots, *pids} for roots, pids in zip(groups.values(), stayed, strict=True)])
    return dict(zip(groups, zip(before, after, strict=True), strict=True))


def _time_s(processes: Table, tree: Set[int]) -> float:
    """CPU seconds of a tree. Ended children that were waited for are part of their parent."""
    return sum(processes[pid].with_ended_s for pid in tree)
