"""Cores and memory that this process may use, and the reason; in a container they are less than the machine has.

The machine's figures are what /proc shows in a container too. Control groups: Linux, Documentation/admin-guide,
cgroup-v2.rst (cpu.max, memory.max) and cgroup-v1 (cpu.cfs_quota_us, memory.limit_in_bytes).
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import psutil

SYSTEM = Path("/")
"""Root of /proc and /sys."""


@dataclass(frozen=True)
class Cores:
    """Cores of the machine, those that the scheduler may choose from (a cpuset, taskset), and the CPU time of a quota.

    A quota of 1.5 cores allows all threads together 1.5 s of CPU time in a second, on any of the cores.
    """

    machine: int
    affinity: int
    quota: float | None

    @property
    def allowed(self) -> int:
        """Return the number of threads that can be kept busy: a quota of 1.5 is used up by two."""
        return self.affinity if self.quota is None else min(self.affinity, math.ceil(self.quota))

    @property
    def limited_by(self) -> Literal["machine", "affinity", "quota"]:
        """Return what limits the number of usable cores."""
        if self.allowed < self.affinity:
            return "quota"
        return "affinity" if self.affinity < self.machine else "machine"

    def __str__(self) -> str:
        if self.limited_by == "machine":
            return f"{self.allowed} cores"
        why = f"a quota of {self.quota:g}" if self.limited_by == "quota" else "the affinity"
        return f"{self.allowed} of {self.machine} cores ({why})"


@dataclass(frozen=True)
class Memory:
    """Memory of the machine, the control groups' limit (None where they set none), and what is free within both."""

    machine_bytes: int
    limit_bytes: int | None
    available_bytes: int


def cores(system: Path = SYSTEM) -> Cores:
    """Return the cores that this process may use now."""
    quotas = [quota for group in _groups(system, "cpu") if (quota := _quota(group)) is not None]
    affinity = len(os.sched_getaffinity(0))
    return Cores(os.cpu_count() or affinity, affinity, min(quotas, default=None))


def memory(system: Path = SYSTEM) -> Memory:
    """Return the memory that this process may use now, and the other use of its control groups."""
    machine = psutil.virtual_memory()
    limits, free = [], [machine.available]
    for group in _groups(system, "memory"):
        limit = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
        if limit is None or limit >= machine.total:  # version 1 has no word for no limit, but a very large number
            continue
        limits.append(limit)
        free.append(max(limit - _used(group), 0))
    return Memory(machine.total, min(limits, default=None), min(free))


def _groups(system: Path, controller: str) -> list[Path]:
    """List a controller's folders for this process: the groups around its own first, because they bind it too.

    A container is shown its own group as the root, or a path that it cannot see, of which the root is left.
    """
    own: dict[str, str] = {}
    for line in _text(system / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path)  # version 2 has one line, whose list is empty
    mount = system / "sys/fs/cgroup"
    unified = (mount / "cgroup.controllers").exists()
    groups = [mount if unified else mount / controller]
    names = PurePosixPath(own.get("" if unified else controller, "/")).parts[1:]
    for name in names if ".." not in names else ():
        groups.append(groups[-1] / name)
    return groups


def _quota(group: Path) -> float | None:
    """A group's CPU time in cores."""
    quota, _, period = _text(group / "cpu.max").partition(" ")
    quota = quota or _text(group / "cpu.cfs_quota_us")
    period = period or _text(group / "cpu.cfs_period_us")
    if not (quota.isdecimal() and period.isdecimal() and int(quota) and int(period)):
        return None  # "max" in version 2, -1 in version 1
    return int(quota) / int(period)


def _used(group: Path) -> int:
    """Return the part of a group's memory that cannot be reclaimed: all but idle files in the cache."""
    used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes") or 0
    stat = dict(line.split() for line in _text(group / "memory.stat").splitlines())
    return used - int(stat.get("total_inactive_file") or stat.get("inactive_file") or 0)


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
