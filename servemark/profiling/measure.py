"""One warm inference on an engine in this process, with and without its profiler in turns, and perf(1) beside."""

import contextlib
import itertools
import os
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from servemark.errors import OptionError
from servemark.profiling.engines import kind_of, profiler_module
from servemark.profiling.timeline import Inference
from servemark.repository.entry import FULL, Entry
from servemark.results.schema.profile import Counters, ProfilerCost
from servemark.stats.ratios import median_ratio
from servemark.stats.unknown import explained, unknown
from servemark.workload import Arrays, get

IPC = ("instructions:u", "cycles:u")
TOP_DOWN = ("topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound")
"""Slots of Intel's top-down method (Yasin 2014), by perf's names."""
SECONDS, ATTACH_S, END_S = 1.0, 0.3, 5.0
_NO_GPU = "Nsight Compute's counters are a GPU's, and the profile is of a CPU"
_NOT_ASKED = "Nsight Compute is not asked: ncu --target-processes all around the command has them"
WARM_UP = 3
"""Most inferences before the first that counts; the profiler's first ones count no more than the engine's."""
ROUNDS = (3, 30)
"""Fewest and most rounds of one inference with the profiler and one without."""


@explained
def read_counters(call: Callable[[], object], device: str, perf: str | None = None) -> Counters:
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


@dataclass(frozen=True)
class Order:
    """One engine to be profiled, and the time for it (s)."""

    workload: str
    engine: str
    repository: Path
    batch_size: int = 1
    precision: str = FULL
    device: str = "cpu"
    rounds_s: float = 5.0

    @property
    def entry(self) -> Entry:
        """The entry of the repository."""
        return Entry(self.repository, self.workload, self.engine, self.precision)

    def inputs(self) -> Arrays:
        """The workload's first request. Raises OptionError for a batch that it cannot have."""
        workload = get(self.workload)
        if self.batch_size > max(workload.max_batch, 1):
            raise OptionError(
                f"{self.workload} takes batches up to {max(workload.max_batch, 1)}, {self.batch_size} was asked for",
                fix=f"use -b {max(workload.max_batch, 1)} or less",
            )
        samples = workload.samples(np.random.default_rng(0))
        return workload.request([next(samples) for _ in range(self.batch_size)])


@dataclass(frozen=True)
class Measured:
    """The inference of the median time, and what its profile cost."""

    provider: str
    profiler: str
    inference: Inference
    cost: ProfilerCost
    counters: Counters


def measure(order: Order) -> Measured:
    """Profile one inference in this process. Raises what the engine raises where it cannot be loaded, OptionError."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler tells of each start and stop
    inputs = order.inputs()
    module = profiler_module(order.engine)
    profiler = module.Profiler(order.entry, order.device, inputs)

    def plain() -> float:
        begun = time.perf_counter()
        profiler.engine.run(inputs)
        return time.perf_counter() - begun

    warm_s = time.perf_counter() + order.rounds_s
    for number in range(WARM_UP):
        if number and time.perf_counter() > warm_s:  # a model of seconds is warm after one
            break
        plain()
        profiler.profiled(inputs)
    profiler.forget()
    fewest, most = ROUNDS
    pairs: list[tuple[float, float]] = []
    begun = time.perf_counter()
    while len(pairs) < fewest or (len(pairs) < most and time.perf_counter() - begun < order.rounds_s):
        if len(pairs) % 2:  # drift hits both alike
            with_it = profiler.profiled(inputs)
            pairs.append((with_it, plain()))
        else:
            without = plain()
            pairs.append((profiler.profiled(inputs), without))
    counted = read_counters(plain, order.device)
    found = sorted(profiler.inferences(), key=lambda each: each.seconds)
    name, median = module.PROFILERS[kind_of(order.device)], found[(len(found) - 1) // 2]
    return Measured(profiler.engine.provider, name, median, _cost(pairs), counted)


def _cost(pairs: Sequence[tuple[float, float]]) -> ProfilerCost:
    ratio = median_ratio(pairs)
    profiled, plain = (statistics.median(each) * 1e3 for each in zip(*pairs, strict=True))
    return {
        "rounds": len(pairs),
        "plain_ms": plain,
        "profiled_ms": profiled,
        "ratio": ratio.value,
        "ci95": None if ratio.low is None or ratio.high is None else [ratio.low, ratio.high],
    }
