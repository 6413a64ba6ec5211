"""Share of the cores that other work and other virtual machines take while kernels are timed."""

import os

import psutil

from servemark.machine.cpu_time import CannotTell, Watch
from servemark.stats.unknown import unknown

BUSY_S = 0.5


def busy_share() -> float:
    """Share of all cores that other work uses now."""
    return psutil.cpu_percent(interval=BUSY_S) / 100


def watching() -> Watch | CannotTell:
    """The cores from now on, or why they cannot be watched."""
    try:
        return Watch({"kernels": [os.getpid()]})
    except CannotTell as reason:
        return reason


def taken(watch: Watch | CannotTell) -> float | None:
    """Return the share of the cores that others took since then, else an unknown figure."""
    try:
        if isinstance(watch, CannotTell):
            raise watch
        return watch.use().other_cpu_share
    except CannotTell as reason:
        return unknown(str(reason))
