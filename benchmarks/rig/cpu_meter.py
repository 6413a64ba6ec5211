"""The CPU that a generator takes for each request, seen from outside and alike for every generator.

A child's CPU time is read (/proc/PID/stat by psutil, all threads and its own children) at the edges of an interval in
the middle of its run, and so is the server's counter of requests. Start-up, connecting, imports and the final report
lie outside.
"""

import math
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

START_WITHIN_S = 60.0
END_WITHIN_S = 180.0
SETTLE_SHARE, MEASURED_SHARE = 0.2, 0.6
"""Of the run's length: what passes after the first answers, and what is measured then."""
FIRST_ANSWERS = 20
"""More than either generator asks before its load begins."""


class Reading(NamedTuple):
    """CPU seconds that were used and requests that were answered until now."""

    cpu_s: float
    requests: int


class Run(NamedTuple):
    """A child that has ended."""

    output: str
    code: int
    cpu_us: float
    """For each request; NaN where it failed or ended too early to say."""


def run(
    command: Sequence[str],
    answered: Callable[[], int],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Run:
    """Run a generator whose load lasts `seconds`; `answered` is the server's count of requests."""
    with tempfile.TemporaryFile("w+") as output:
        before = answered()
        process = subprocess.Popen(command, env=environment, cwd=cwd, stdout=output, stderr=subprocess.STDOUT)
        try:
            edges = _edges(process, before, answered, seconds)
            code = process.wait(END_WITHIN_S)
        finally:
            process.kill()
        output.seek(0)
        return Run(output.read(), code, cpu_us(*edges) if edges else math.nan)


def cpu_us(first: Reading, last: Reading) -> float:
    """µs of CPU for each request between two readings; NaN where nothing was answered."""
    requests = last.requests - first.requests
    return (last.cpu_s - first.cpu_s) / requests * 1e6 if requests > 0 else math.nan


def used_s(pid: int) -> float:
    """CPU seconds of a process and of the children it has."""
    process = psutil.Process(pid)
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def _edges(
    process: "subprocess.Popen[bytes]", before: int, answered: Callable[[], int], seconds: float
) -> tuple[Reading, Reading] | None:
    """Both readings, or None where the process ended before the second."""
    deadline = time.monotonic() + START_WITHIN_S
    while answered() < before + FIRST_ANSWERS:
        if process.poll() is not None or time.monotonic() > deadline:
            return None
        time.sleep(0.02)
    try:
        time.sleep(SETTLE_SHARE * seconds)
        first = Reading(used_s(process.pid), answered())
        time.sleep(MEASURED_SHARE * seconds)
        used = used_s(process.pid)
    except psutil.NoSuchProcess:
        return None
    return (first, Reading(used, answered())) if process.poll() is None else None
