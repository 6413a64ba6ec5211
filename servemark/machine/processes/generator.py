"""Processes of this machine that generate the load."""

import os

import psutil

from servemark import interrupts
from servemark.machine.processes.table import Table, trees


def roots() -> list[int]:
    """Return the roots of this run's trees: its command and the one that watches that, else this process.

    With them come their server, where they have started one, and their other loads.
    """
    commands = [pid for pid in (interrupts.owner(), interrupts.watcher()) if pid is not None and psutil.pid_exists(pid)]
    return commands or [os.getpid()]


def family(table: Table) -> set[int]:
    """Return the processes of this run's trees, and those that it descends from."""
    (found,) = trees(table, [roots()])
    pid = os.getpid()
    while pid in table:
        found.add(pid)
        pid = table[pid].parent
    return found
