"""A workload's kernels with their counts, and its latency in PyTorch, of which the profiler says where it goes.

Of an imported ONNX file the latency is ONNX Runtime's, which joins operators: they have no times of their own there.
"""

import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.measurement import measure
from kernels.measurement.case import Case, Method
from kernels.measurement.device import Device
from kernels.measurement.kernel import Kernel
from kernels.tracing import onnx_calls
from kernels.tracing.calls import Call, calls_of
from servemark.errors import OptionError, ServemarkError, ServerError
from servemark.machine.own_process import ERRORS, OwnProcess, words
from servemark.results.schema.kernels import Traced, Unmapped
from servemark.stats.unknown import explained, unknown
from servemark.workload import Arrays, Workload, get

if TYPE_CHECKING:
    from torch.autograd.profiler_util import FunctionEvent

TORCH, ONNX = "pytorch", "onnxruntime"
"""Engines whose imported files can be traced."""
TRACE_S = 1800.0
"""Longest time for building and tracing (s): weights of some models are calibrated."""
PROFILES, PROFILED_S = 5, 10.0
"""Profiled runs, of which the one with the median time counts, and the time after which no further one begins (s)."""
_JOINED = "ONNX Runtime joins operators"
_NO_SHARES = "the profiler follows a CPU only, and calls that come again in the same order"


@dataclass(frozen=True)
class Trace:
    """Kernels of one inference, each once with its count, the parts of its time, and its calls in order."""

    cases: list[Case]
    traced: Traced
    calls: Sequence[Call] = ()


def trace_apart(name: str, batch: int, device: Device, *, timed: bool = True) -> Trace:
    """As `trace`, in a process of its own. Raises OptionError, and ServerError where the model cannot be run."""
    workload = get(name)  # before a process is started
    if batch > 1 and not workload.batched:
        raise OptionError(f"{name} has no batch dimension", fix="leave out --batch-size")
    if (source := workload.source) is not None:
        if source.engine not in {TORCH, ONNX}:
            raise OptionError(f"the kernels of {source.kind} cannot be told", fix="import an ONNX file or a .pt2 of it")
        if any(tensor.datatype == "BYTES" for tensor in workload.inputs):
            raise OptionError(
                f"the kernels of {name} cannot be told: it takes strings", fix="import the part behind them"
            )
        if source.engine == ONNX and device.is_gpu:
            raise OptionError(f"the kernels of {source.kind} are told on a CPU alone", fix="--device cpu")
    try:
        with OwnProcess() as process:
            return process.run(trace, name, batch, device, timed, timeout_s=TRACE_S)
    except ServemarkError:
        raise
    except ERRORS as error:
        what = f"{name} cannot be traced at batch {batch}: {words(error)}"
        raise ServerError(what, fix="use a smaller -b") from error


def trace(name: str, batch: int, device: Device, timed: bool = True) -> Trace:
    """Run a workload on a batch of its own samples, once where it is not `timed`. Raises what its model raises."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler tells of each start and stop
    import torch

    workload = get(name)
    samples = workload.samples(np.random.default_rng(0))
    arrays = workload.request([next(samples) for _ in range(batch)])
    torch.set_num_threads(device.cores)
    in_onnx = workload.source is not None and workload.source.engine == ONNX
    calls, run = (_onnx if in_onnx else _torch)(workload, arrays, device)
    latency_s, shares = math.nan, None
    if timed:
        with torch.inference_mode():
            latency_s = measure.timed(run, measure.first_call_s(run, device), Method(device)).median
        if not (device.is_gpu or in_onnx):
            shares = shares_of(calls, run, max(1, min(PROFILES, int(PROFILED_S / latency_s))))
    traced = document(name, batch, calls, latency_s, shares, _JOINED if in_onnx else _NO_SHARES)
    if in_onnx:
        traced["engine"] = "ONNX Runtime"
    return Trace(kernels(calls, f"{name}, batch {batch}"), traced, calls)


def _torch(workload: Workload, arrays: Arrays, device: Device) -> tuple[list[Call], Callable[[], object]]:
    """The calls of a network in PyTorch, or of an imported program, and what runs it."""
    import torch

    built = torch.export.load(workload.source.path).module() if workload.source else workload.build()
    model = built.to(device.name)
    inputs = [torch.from_numpy(arrays[tensor.name]).to(device.name) for tensor in workload.inputs]

    def run() -> object:
        return model(*inputs)

    return calls_of(run, model.named_parameters()), run


def _onnx(workload: Workload, arrays: Arrays, device: Device) -> tuple[list[Call], Callable[[], object]]:
    """The calls of an imported ONNX file, and what runs it."""
    import onnxruntime

    assert workload.source is not None
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = device.cores
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(workload.source.path, settings, providers=["CPUExecutionProvider"])
    return onnx_calls.calls_of(workload.source.path, arrays), lambda: session.run(None, dict(arrays))


def kernels(calls: Iterable[Call], source: str) -> list[Case]:
    """Each kernel once, with its count, in the order of the first call."""
    counts: Counter[tuple[str, Kernel]] = Counter()
    for call in calls:
        counts.update((case.family, case.kernel) for case in call.cases)
    return [Case(family, kernel, source=source, count=count) for (family, kernel), count in counts.items()]


@explained
def document(
    name: str,
    batch: int,
    calls: Sequence[Call],
    latency_s: float,
    shares: Sequence[float] | None,
    no_shares: str = _NO_SHARES,
) -> Traced:
    """Return the parts of the latency; `shares` are those of each call, None if they are not known."""
    found: dict[str, Unmapped] = {}
    for index, call in enumerate(calls):
        if call.reason is not None:
            each = found.setdefault(call.name, {"operator": call.name, "count": 0, "ms": None if shares is None else 0})
            each["count"] += 1
            if shares is not None:
                each["ms"] = (each["ms"] or 0.0) + shares[index] * latency_s * 1e3
    whole_ms, told = latency_s * 1e3, sum(shares or ())
    mapped = sum(share for call, share in zip(calls, shares or (), strict=False) if call.reason is None)
    return {
        "workload": name,
        "batch_size": batch,
        "calls": len(calls),
        "kernels": sum(len(call.cases) for call in calls),
        "latency_ms": whole_ms,
        "kernels_ms": unknown("not every kernel has been measured"),
        "mapped_ms": unknown(no_shares) if shares is None else mapped * whole_ms,
        "unmapped_ms": unknown(no_shares) if shares is None else (told - mapped) * whole_ms,
        "between_ms": unknown(no_shares) if shares is None else (1 - told) * whole_ms,
        "unmapped": sorted(found.values(), key=lambda each: (-(each["ms"] or 0.0), -each["count"])),
    }


def shares_of(calls: Sequence[Call], run: Callable[[], object], times: int = PROFILES) -> list[float] | None:
    """Return each call's share of a run, by PyTorch's profiler. None if that sees other calls.

    Shares, because the profiler slows a run down.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    found = []
    for _ in range(times + 1):  # the first starts the profiler
        with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as profiler:
            begun = time.perf_counter()
            run()
            spent_s = time.perf_counter() - begun
        found.append((spent_s, profiler.events()))
    median_s = statistics.median_low([spent_s for spent_s, _ in found[1:]])
    events: Any = next(events for spent_s, events in found[1:] if spent_s == median_s)
    seconds = matched(calls, [event for event in events if event.cpu_parent is None])
    return None if seconds is None else [each / median_s for each in seconds]


def matched(calls: Sequence[Call], roots: "Sequence[FunctionEvent]") -> list[float] | None:
    """Seconds of each call from a profile's tree, in which calls stand in order, maybe within others."""
    found: list[float] = []
    waiting = sorted(roots, key=lambda event: -event.time_range.start)
    while waiting and len(found) < len(calls):
        event = waiting.pop()
        if event.name == calls[len(found)].operator:
            found.append(event.cpu_time_total / 1e6)
        else:
            waiting += sorted(event.cpu_children, key=lambda child: -child.time_range.start)
    return found if len(found) == len(calls) else None
