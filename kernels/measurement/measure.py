"""A case measured: is it right, how long does a call take, what bounds it.

On a CPU `timeit` times blocks of calls of at least a millisecond, as `torch.utils.benchmark` does. That makes blocks
tenfold until its own cost is a ten thousandth: some take half a second, and a second holds too few for a percentile. On
a GPU CUDA events do: they stand in the device's own queue, so the time of Python is none of a block's.

Just before a case the speed of the machine itself is probed, by a product and a copy, the same before each case. A
virtual machine shares its clock, its caches and its memory with others, and neither load nor stolen time tells of that.
There are two probes because products and copies slow down at different times.
"""

import contextlib
import functools
import itertools
import logging
import math
import time
import timeit
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernels.libraries import TORCH, library
from kernels.measurement.case import MIB, Case, Method, Unmeasured, blank, copies, needed_bytes, refusal
from kernels.measurement.device import PRECISIONS, Device
from kernels.measurement.kernel import Bound, Sample, TensorFactory, make_kernel
from kernels.measurement.sensors import Call, sensors_of
from servemark.results.schema.kernels import Cache, Ceiling, KernelCase, KernelTimes, Probe
from servemark.stats.unknown import explained, unknown

MAX_COPIES = 4096
"""Of a kernel's tensors, to fill the cache with."""
PROBE_S = 0.05
"""Time for each probe (s)."""
SIDE = 512
"""Of the square matrices of the probed product."""
CACHES, MIN_COPY_BYTES = 2, 64 << 20
"""Last-level caches that the probed copy touches, and its least bytes."""
SAMPLE_S = 1e-3
"""Shortest time of a block on a CPU (s)."""
MARGIN, GROWTH = 1.2, 10
"""Factor by which a calibrated block is longer, and by which its calls grow at most in one step."""
MIN_SAMPLES = 5
MAX_SAMPLES = 1000
"""Of a GPU: a block takes at least a thousandth of the time for a kernel."""
MAX_CALLS = 1 << 12
MIN_BLOCK_S = 1e-4
"""A shorter one would be a clock that stands still."""
WARM_UP_S = 0.1
MIN_TAIL_SAMPLES, LONGER = 20, 2
"""Samples that p5 and p95 need, and the factor by which a case may take longer to have them."""


@dataclass(frozen=True)
class Samples:
    """The times of one call (s): each is the mean of a block of `calls`."""

    seconds: tuple[float, ...]
    calls: int

    @property
    def median(self) -> float:
        """Seconds."""
        return float(np.median(self.seconds))

    @explained
    def document(self) -> KernelTimes:
        """The distribution in ms."""
        ms = np.array(self.seconds) * 1e3
        p5, low, median, high, p95 = np.percentile(ms, [5, 25, 50, 75, 95]).tolist()
        few = f"needs {MIN_TAIL_SAMPLES} samples, has {len(ms)}"
        return {
            "median": median,
            "iqr": high - low,
            "p5": p5 if len(ms) >= MIN_TAIL_SAMPLES else unknown(few),
            "p95": p95 if len(ms) >= MIN_TAIL_SAMPLES else unknown(few),
            "min": float(ms.min()),
            "samples": len(ms),
            "calls_per_sample": self.calls,
        }


def measure(case: Case, method: Method, ceiling: Ceiling | None = None) -> KernelCase:
    """Check and time a case; whatever goes wrong is in what it returns. `ceiling` is that of its precision."""
    try:
        with prepared_for(case):
            return _measure(case, method, ceiling)
    except Unmeasured as ended:
        return blank(case, method.device, ended.status, str(ended))


def fastest_s(case: Case, method: Method) -> float:
    """Check a case, and time its fastest sample (s). Raises Unmeasured."""
    with prepared_for(case), _checked(case, method) as (bound, first_s, _):
        return min(timed(bound.call, first_s, method).seconds)


@contextlib.contextmanager
def prepared_for(case: Case) -> Iterator[None]:
    """Set PyTorch up for a case. Whatever libraries raise meanwhile becomes Unmeasured."""
    import torch

    # Words about compilers that nobody asked for are kept out of the progress.
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
    try:
        with torch.no_grad(), _products_in("tf32" if case.precision == "tf32" else "ieee"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Unmeasured:
        raise
    except Exception as error:  # what libraries raise has no base
        words = str(error).strip().split("\n", maxsplit=1)[0] or type(error).__name__
        memory = isinstance(error, MemoryError | torch.OutOfMemoryError) or "DefaultCPUAllocator" in words
        name = "PyTorch" if case.library == TORCH else case.library
        raise Unmeasured("skipped" if memory else "failed", f"{name}: {words}") from None


@contextlib.contextmanager
def _products_in(numbers: str) -> Iterator[None]:
    """Set how products of fp32 are computed; put back, because torch.export refuses a process where it is set."""
    import torch

    backends: Any = torch.backends
    # The first does not reach cuDNN's convolutions and recurrent cells, whose own settings are TF32 by default.
    settings = (backends, backends.cudnn.conv, backends.cudnn.rnn)
    before = [each.fp32_precision for each in settings]
    for each in settings:
        each.fp32_precision = numbers
    try:
        yield
    finally:
        for each, value in zip(settings, before, strict=True):
            each.fp32_precision = value


def _measure(case: Case, method: Method, ceiling: Ceiling | None) -> KernelCase:
    device = method.device
    with _checked(case, method, ceiling) as (bound, first_s, error), contextlib.ExitStack() as others:
        calls = [bound.call]
        for seed in range(1, copies(case.kernel.traffic(case.precision), method)):
            other = _bind(case, device, seed)
            others.callback(other.release)
            calls.append(other.call)
        call = rotating(calls)
        probe = _probe(method)
        samples = timed(call, first_s, method)
        fixed = _fixed(case, samples.median, method)
        felt = sensors_of(device.name).feel(call, lambda: _wait(device), samples.median)
    found = _judged(blank(case, device, "measured", None), case, samples, error, ceiling, method.cache)
    return {**found, **felt, "probe": probe, "figures": found["figures"] | fixed}


@contextlib.contextmanager
def _checked(case: Case, method: Method, ceiling: Ceiling | None = None) -> Iterator[tuple[Bound, float, float]]:
    """The kernel with tensors, the seconds of its first call, and its distance from float64. Raises Unmeasured."""
    if reason := refusal(case, method.device):
        raise Unmeasured("skipped", reason)
    _check_room(case, method)
    if ceiling:
        _check_time(max(case.floor_s(ceiling).values()), method)
    bound = _bind(case, method.device)
    try:
        first_s = first_call_s(bound.call, method.device)
        _check_time(first_s, method)
        error = error_of(case, bound)
        if not error <= PRECISIONS[case.precision].tolerance:
            raise Unmeasured("failed", f"wrong: off by {error:.2g} of the largest value that float64 expects")
        yield bound, first_s, error
    finally:
        bound.release()


def _bind(case: Case, device: Device, seed: int = 0) -> Bound:
    """The kernel with tensors, in the case's library."""
    bound = case.kernel.bind(TensorFactory(case.precision, device.name, seed))
    node = case.kernel.node()
    if case.library == TORCH or node is None:
        return bound
    import torch

    answer = bound.call()
    assert isinstance(answer, torch.Tensor)
    arrays = [each.numpy() for each in bound.inputs]
    call, read = library(case.library).prepare(node, arrays, tuple(answer.shape), device.cores)
    return replace(bound, call=call, read=lambda: torch.from_numpy(read()))


def error_of(case: Case, bound: Bound) -> float:
    """Return the distance of a call's answer from float64, as a share of the largest expected value."""
    worst = 0.0
    output = bound.call()
    for found, expected in case.kernel.expected(bound, bound.read() if bound.read else output, Sample()):
        if found.shape != expected.shape:
            return math.inf
        if expected.numel():
            largest = float(expected.abs().max())
            off = float((found.double() - expected).abs().max())
            # All zeros would agree with anything that is lost.
            worst = max(worst, off / largest if largest > 0 and math.isfinite(off) else math.inf)
    return worst


def _check_room(case: Case, method: Method) -> None:
    sets = copies(case.kernel.traffic(case.precision), method)
    if sets > 1 and not case.kernel.MAY_BE_COLD:
        raise Unmeasured("skipped", "cold cache: its processes have one set of tensors")
    if sets > MAX_COPIES:
        raise Unmeasured("skipped", f"cold cache: so small that {sets:,} copies would be needed to fill it")
    needed, free = needed_bytes(case, method), method.device.available_bytes()
    if needed > free:
        raise Unmeasured("skipped", f"memory: needs {needed / MIB:,.0f} MiB, {free / MIB:,.0f} MiB are free")


def _check_time(call_s: float, method: Method) -> None:
    """A case takes a first call, one for the check, one that calibrates, and the samples."""
    case_s = call_s * (MIN_SAMPLES + 3)
    if case_s > method.limit_s:
        reason = f"time: about {case_s:.3g} s, more than --case-limit {method.limit_s:g}"
        raise Unmeasured("skipped", reason)


def first_call_s(call: Call, device: Device) -> float:
    """Seconds of the first call, which may prepare things."""
    begun = time.perf_counter()
    call()
    _wait(device)
    return time.perf_counter() - begun


def timed(call: Call, first_s: float, method: Method) -> Samples:
    """Time a call that took `first_s` at first."""
    if method.device.is_gpu:
        import torch

        with torch.cuda.device(method.device.name):
            synchronize = torch.cuda.synchronize
            return time_on_gpu(call, lambda: torch.cuda.Event(enable_timing=True), synchronize, method.budget_s)
    return time_on_cpu(call, first_s, method.device.cores, method.budget_s)


def _probe(method: Method) -> Probe:
    """Time the machine's product and copy (ms)."""
    short, warm_s = replace(method, budget_s=PROBE_S), math.inf  # so slow a call asks for no warm-up
    with _products_in("ieee"):
        times = {name: timed(call, warm_s, short).median * 1e3 for name, call in probes_of(method.device).items()}
    return {"product_ms": times["product_ms"], "copy_ms": times["copy_ms"]}


def _fixed(case: Case, seconds: float, method: Method) -> dict[str, float]:
    """Estimate a call's time without its steps (ms), from the time of fewer steps: t = fixed + steps * each."""
    shorter = case.kernel.shorter()
    if shorter is None or case.library != TORCH:
        return {}
    bound = shorter.bind(TensorFactory(case.precision, method.device.name))
    share = shorter.flops() / case.kernel.flops()
    fewer_s = timed(bound.call, first_call_s(bound.call, method.device), method).median
    return {"fixed_ms": (fewer_s - share * seconds) / (1 - share) * 1e3}


def _wait(device: Device) -> None:
    if device.is_gpu:
        import torch

        torch.cuda.synchronize(device.name)


@explained
def _judged(
    found: KernelCase, case: Case, samples: Samples, error: float, ceiling: Ceiling | None, cache: Cache
) -> KernelCase:
    """The case with its figures."""
    seconds = samples.median
    tflops, gbps = found["flops"] / seconds / 1e12, found["bytes"] / seconds / 1e9
    found |= {"error": error, "ms": samples.document(), "figures": case.kernel.figures(seconds)}
    found |= {"tflops": tflops, "gbps": gbps}
    if ceiling is None:
        reason = "no ceiling of its precision was measured"
        found |= {"compute_share": unknown(reason), "bandwidth_share": unknown(reason)}
        found |= {"bound": unknown(reason), "bound_share": unknown(reason)}
        return found
    floors = case.floor_s(ceiling, cache)
    bound = max(floors, key=lambda name: floors[name])
    found |= {
        "compute_share": tflops / ceiling["tflops"],
        "bandwidth_share": max(floors.get("cache", 0.0), floors.get("memory", 0.0)) / seconds,
        "bound": bound,
        "bound_share": floors[bound] / seconds,
    }
    return found


@functools.cache
def probes_of(device: Device) -> dict[str, Call]:
    """The calls by the name of their figure; their tensors are made once in a process."""
    length = max(CACHES * device.cache_bytes, MIN_COPY_BYTES) // 8  # 4 bytes, read and written
    kernels = {
        "product_ms": make_kernel("gemm", {"m": SIDE, "n": SIDE, "k": SIDE}),
        "copy_ms": make_kernel("memory", {"operation": "copy", "length": length}),
    }
    return {name: kernel.bind(TensorFactory("fp32", device.name)).call for name, kernel in kernels.items()}


def time_on_cpu(call: Call, first_s: float, threads: int, budget_s: float) -> Samples:
    """Time a call that took `first_s` at first, on `threads` threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return _blocks(timeit.Timer("call()", globals={"call": call}), first_s, budget_s)
    finally:
        torch.set_num_threads(before)


def _blocks(timer: timeit.Timer, first_s: float, budget_s: float) -> Samples:
    warm_ups = min(math.ceil(WARM_UP_S / max(first_s, 1e-7)), 100_000)
    if warm_ups > 1:
        timer.timeit(warm_ups)
    calls = 1
    while (block_s := timer.timeit(calls)) < SAMPLE_S:
        wanted = math.ceil(MARGIN * SAMPLE_S * calls / max(block_s, 1e-9))
        calls = max(min(wanted, GROWTH * calls), calls + 1)
    found: list[float] = []
    spent_s = 0.0
    while (
        len(found) < MIN_SAMPLES
        or spent_s < budget_s
        or (len(found) < MIN_TAIL_SAMPLES and spent_s < LONGER * budget_s)
    ):
        block_s = timer.timeit(calls)
        found.append(block_s / calls)
        spent_s += block_s
    return Samples(tuple(found), calls)


def time_on_gpu(call: Call, event: Callable[[], Any], synchronize: Callable[[], None], budget_s: float) -> Samples:
    """Time a call by events around blocks, all of them in the queue before the first is waited for.

    `event` makes one as `torch.cuda.Event` is, `synchronize` waits for the device.
    """

    def blocks(calls: int, count: int) -> list[float]:
        """Return the seconds of each of `count` blocks."""
        edges = [event() for _ in range(count + 1)]
        edges[0].record()
        for edge in edges[1:]:
            for _ in range(calls):
                call()
            edge.record()
        synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in itertools.pairwise(edges)]

    calls = 1
    while (block_s := blocks(calls, 1)[0]) < budget_s / MAX_SAMPLES and calls < MAX_CALLS:
        calls *= 2  # warms up too: clocks rise, libraries choose their algorithm
    block_s = max(block_s, MIN_BLOCK_S)
    blocks(calls, math.ceil(WARM_UP_S / block_s))
    count = min(max(math.ceil(budget_s / block_s), MIN_SAMPLES), MAX_SAMPLES)
    return Samples(tuple(seconds / calls for seconds in blocks(calls, count)), calls)


def rotating(calls: Sequence[Call]) -> Call:
    """One call that takes the next of several each time: by its turn again, others have filled the cache."""
    if len(calls) == 1:
        return calls[0]
    turns = itertools.cycle(calls)
    return lambda: next(turns)()  # noqa: PLW0108 - another call each time
