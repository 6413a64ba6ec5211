"""Processes of this machine by number, as /proc/PID/stat (proc(5)) shows them; trees, a run's among them; their end."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil

from servemark import interrupts
from servemark.machine.limits import SYSTEM

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Fields after the name in parentheses: the parent; CPU time of its own and of its ended children; the start.
_PARENT, _FLAGS, _TIMES, _OWN_TIMES, _START = 1, 6, slice(11, 15), slice(11, 13), 19
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of the kernel's include/linux/sched.h, in a process's flags."""


class Process(NamedTuple):
    """One process, which another one with its number does not start at the same time."""

    name: str
    parent: int
    start: int
    own_s: float
    """CPU seconds until now."""
    with_ended_s: float
    """With ended children that were waited for, whose time may be of long ago."""


Table = Mapping[int, Process]


def processes(system: Path = SYSTEM) -> dict[int, Process]:
    """Read all processes but those hidden and the kernel's own threads. Raises OSError, ValueError, IndexError."""
    table = {}
    for folder in (system / "proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            head, _, tail = (folder / "stat").read_text(errors="replace").rpartition(")")
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue  # it has ended meanwhile, or is hidden from other users
        fields = tail.split()
        if not int(fields[_FLAGS]) & _KERNEL_THREAD:
            own_s, with_ended_s = (sum(map(int, fields[times])) * _TICK_S for times in (_OWN_TIMES, _TIMES))
            name, parent, start = head.partition("(")[2], int(fields[_PARENT]), int(fields[_START])
            table[int(folder.name)] = Process(name, parent, start, own_s, with_ended_s)
    return table


def children(table: Table) -> dict[int, list[int]]:
    """Return the children of each process that has some."""
    found: dict[int, list[int]] = {}
    for pid, process in table.items():
        found.setdefault(process.parent, []).append(pid)
    return found


def trees(table: Table, roots: Iterable[Iterable[int]]) -> list[set[int]]:
    """Return the processes of each tree, which has several roots. One below two roots belongs to the first tree."""
    below = children(table)
    taken: set[int] = set()
    found = []
    for starts in roots:
        left, tree = [*starts], set[int]()
        while left:
            pid = left.pop()
            if pid not in taken:
                taken.add(pid)
                tree.add(pid)
                left += below.get(pid, ())
        found.append(tree & table.keys())
    return found


def same(table: Table, other: Table, pid: int) -> bool:
    """Return True if a process is in both tables, and not another one that was given its number."""
    return pid in table and pid in other and table[pid].start == other[pid].start


def generator_roots() -> list[int]:
    """Return the roots of this run's trees: its command and the one that watches that, else this process.

    With them come their server, where they have started one, and their other loads.
    """
    commands = [pid for pid in (interrupts.owner(), interrupts.watcher()) if pid is not None and psutil.pid_exists(pid)]
    return commands or [os.getpid()]


def generator_family(table: Table) -> set[int]:
    """Return the processes of this run's trees, and those that it descends from."""
    (found,) = trees(table, [generator_roots()])
    pid = os.getpid()
    while pid in table:
        found.add(pid)
        pid = table[pid].parent
    return found


def end_group(process: "subprocess.Popen[bytes]", wait_s: float) -> None:
    """End a child and the group that it leads: SIGTERM, then SIGKILL, and at most `wait_s` after each.

    A group of another user's, as under sudo, goes on.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        for number in (signal.SIGTERM, signal.SIGKILL):
            os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(wait_s)
