"""CPU time of this machine's cores: of named process trees, of other work, of other virtual machines.

proc(5): /proc/stat, /proc/PID/stat. What is idle is known exactly, since an idle core has no clock ticks; what is busy
is all the rest. Time of interrupts is left out: the network's belongs to the traffic of the run itself.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from servemark.machine.limits import SYSTEM, cores

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
# Fields of /proc/PID/stat, after the name in parentheses: the parent; CPU time of its own and of its ended children.
_PARENT, _FLAGS, _TIMES, _OWN_TIMES = 1, 6, slice(11, 15), slice(11, 13)
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of the kernel's include/linux/sched.h, in a process's flags."""


class CannotTell(Exception):  # noqa: N818 - a gap in what is known, with its reason
    """Reason why the machine does not show its use of CPU time."""


@dataclass(frozen=True)
class Snapshot:
    """CPU seconds until now, of the watched cores together and of each group of processes."""

    clock_s: float
    idle_s: float
    interrupts_s: float
    stolen_s: float
    groups_s: Mapping[str, float]
    others_s: Mapping[tuple[str, int], float]
    """Each process of no group but the kernel's, by name and number; without ended children, whose time may be of long
    ago."""


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

    @classmethod
    def between(cls, first: Snapshot, last: Snapshot, watched: int, allowed: float) -> "CpuUse":
        """Compute the use of the cores between two snapshots. Raises CannotTell."""
        passed_s = last.clock_s - first.clock_s
        idle_s = last.idle_s - first.idle_s
        stolen_s = max(last.stolen_s - first.stolen_s, 0.0)
        # A group's processes may have ended and been waited for by another one.
        groups_s = {name: max(last.groups_s[name] - first.groups_s[name], 0.0) for name in last.groups_s}
        if passed_s <= 0 or not 0 <= idle_s <= 1.05 * watched * passed_s + 1:
            raise CannotTell("/proc/stat does not tell the idle time of these cores")
        busy_s = watched * passed_s - idle_s - stolen_s - (last.interrupts_s - first.interrupts_s)
        other_s = max(busy_s - sum(groups_s.values()), 0.0)
        groups = {name: used_s / passed_s for name, used_s in groups_s.items()}
        grown = {key: used_s - first.others_s.get(key, 0.0) for key, used_s in last.others_s.items()}
        # A virtual machine's kernel threads at times show more than the cores were busy: time that the host had.
        credible = {key: used_s for key, used_s in grown.items() if used_s <= CREDIBLE * other_s}
        first_ones = sorted(credible.items(), key=lambda item: -item[1])[:NAMED]
        named = [(name, pid, used_s) for (name, pid), used_s in first_ones if used_s >= SHOWN_CORES * passed_s]
        largest = ", ".join(f"{name} (pid {pid}) {used_s / passed_s:.2g}" for name, pid, used_s in named)
        if named and 2 * sum(used_s for _, _, used_s in named) < other_s:
            largest = f"many, the largest {largest}"
        return cls(watched, allowed, groups, other_s / passed_s, stolen_s / passed_s, largest or None)

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
        self,
        groups: Mapping[str, Iterable[int]],
        system: Path = SYSTEM,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._groups = {name: tuple(roots) for name, roots in groups.items()}
        self._system, self._clock = system, clock
        self._cores = set(os.sched_getaffinity(0))
        for pid in {pid for roots in self._groups.values() for pid in roots}:
            try:
                self._cores |= os.sched_getaffinity(pid)
            except OSError as error:
                raise CannotTell(f"process {pid}: {error.strerror}") from error
        quota = cores(system).quota
        self._allowed = float(len(self._cores)) if quota is None else min(quota, float(len(self._cores)))
        self._first = self.snapshot()

    def use(self) -> CpuUse:
        """Return the use of the cores since the watch began. Raises CannotTell."""
        return CpuUse.between(self._first, self.snapshot(), len(self._cores), self._allowed)

    def snapshot(self) -> Snapshot:
        """Take a snapshot of the machine. Raises CannotTell."""
        clock_s = self._clock()
        try:
            idle_s, interrupts_s, stolen_s = _core_times(self._system, self._cores)
            groups, others = _tree_times(self._system, self._groups)
        except (OSError, ValueError, IndexError) as error:
            raise CannotTell(f"/proc cannot be read: {error}") from error
        return Snapshot(clock_s, idle_s, interrupts_s, stolen_s, groups, others)


def _core_times(system: Path, watched: Set[int]) -> tuple[float, float, float]:
    """Seconds that the watched cores together were idle, served interrupts, and were taken by other machines."""
    found = []
    for line in (system / "proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu" and int(name.removeprefix("cpu")) in watched:
            found.append([int(field) for field in fields])
    if len(found) != len(watched):
        raise CannotTell(f"/proc/stat shows {len(found)} of {len(watched)} cores")
    idle, interrupts, stolen = (
        sum(core[field] for core in found for field in fields)
        for fields in ((_IDLE, _IOWAIT), (_IRQ, _SOFTIRQ), (_STEAL,))
    )
    return idle * _TICK_S, interrupts * _TICK_S, stolen * _TICK_S


def _tree_times(
    system: Path, groups: Mapping[str, Iterable[int]]
) -> tuple[dict[str, float], dict[tuple[str, int], float]]:
    """CPU seconds of each group, which is its roots and all that descends from them, and of each other process.

    In a group, ended children that were waited for are part of their parent.
    """
    ticks: dict[int, int] = {}
    own: dict[int, int] = {}
    names: dict[int, str] = {}
    children: dict[int, list[int]] = {}
    for folder in (system / "proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            head, _, tail = (folder / "stat").read_text(errors="replace").rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        pid, fields = int(folder.name), tail.split()
        if int(fields[_FLAGS]) & _KERNEL_THREAD:
            continue
        names[pid] = head.partition("(")[2]
        ticks[pid] = sum(int(field) for field in fields[_TIMES])
        own[pid] = sum(int(field) for field in fields[_OWN_TIMES])
        children.setdefault(int(fields[_PARENT]), []).append(pid)
    claimed: set[int] = set()
    used: dict[str, float] = {}
    # Whole trees first: of two groups the one inside the other is named first.
    for name, roots in groups.items():
        left, total = [*roots], 0
        while left:
            pid = left.pop()
            if pid not in claimed:
                claimed.add(pid)
                total += ticks.get(pid, 0)
                left += children.get(pid, ())
        used[name] = total * _TICK_S
    return used, {(names[pid], pid): own[pid] * _TICK_S for pid in own if pid not in claimed}
