"""Hardware counters of this process during inferences, through perf(1), where the kernel and the CPU grant them."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from servemark.results.schema.profile import Counters
from servemark.stats.unknown import explained, unknown

IPC = ("instructions:u", "cycles:u")
TOP_DOWN = ("topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound")
"""Slots of Intel's top-down method (Yasin 2014), by perf's names."""
SECONDS, ATTACH_S, END_S = 1.0, 0.3, 5.0
_NO_GPU = "Nsight Compute's counters are a GPU's, and the profile is of a CPU"
_NOT_ASKED = "Nsight Compute is not asked: ncu --target-processes all around the command has them"


@explained
def read(call: Callable[[], object], device: str, perf: str | None = None) -> Counters:
    """Count while `call` is made again and again."""
    ipc, top_down = (_counted(call, events, perf or shutil.which("perf")) for events in (IPC, TOP_DOWN))
    return {
        "ipc": unknown(ipc) if isinstance(ipc, str) else ipc[IPC[0]] / max(ipc[IPC[1]], 1),
        "top_down": unknown(top_down) if isinstance(top_down, str) else _shares(top_down),
        "gpu": unknown(_NO_GPU if device == "cpu" else _NOT_ASKED),
    }


def _shares(counts: Mapping[str, float]) -> dict[str, float]:
    whole = sum(counts.values()) or 1.0
    return {name.removeprefix("topdown-"): count / whole for name, count in counts.items()}


def _counted(call: Callable[[], object], events: Sequence[str], perf: str | None) -> dict[str, float] | str:
    """Counts by event, or the reason why there are none."""
    if perf is None:
        return "perf is not on PATH: install linux-perf"
    command = [perf, "stat", "-x", ",", "-e", ",".join(events), "-p", str(os.getpid())]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ATTACH_S)  # it ends at once where it may not
        end = time.monotonic() + SECONDS
        while process.poll() is None and time.monotonic() < end:
            call()
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"perf did not end within {END_S:g} s"
    return _parsed(said, events)


def _parsed(said: str, events: Sequence[str]) -> dict[str, float] | str:
    """Read perf's lines: the count, a unit, the event."""
    rows = [line.split(",") for line in said.splitlines()]
    found = {row[2]: row[0] for row in rows if len(row) > 2 and row[2] in events}
    if "<not supported>" in found.values():
        return "the CPU, or the virtual machine, has no such counters (perf: not supported)"
    if set(found) != set(events) or not all(count.replace(".", "").isdecimal() for count in found.values()):
        return f"perf does not count {events[0]} and others: {_reason(said)}"
    return {event: float(found[event]) for event in events}


def _reason(said: str) -> str:
    """Return why perf counts nothing, in one line, without the usage text that follows it."""
    if "perf_event_paranoid" in said:
        return "the kernel's setting kernel.perf_event_paranoid forbids it"
    lines = (line.strip() for line in said.splitlines())
    before_usage = itertools.takewhile(lambda line: not line.startswith(("Usage:", "Run 'perf list'")), lines)
    return next(
        (line for line in before_usage if any(map(str.isalpha, line)) and "," not in line), "it did not say why"
    )
