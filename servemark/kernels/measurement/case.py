"""One case from its sizes to its figures: may it run here, is it right, how long does it take, what bounds it."""

import contextlib
import itertools
import logging
import math
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from servemark.kernels.libraries import TORCH, library
from servemark.kernels.measurement.device import Device
from servemark.kernels.measurement.kernel import Bound, Kernel, Maker, Sample, make_kernel
from servemark.kernels.measurement.precisions import PRECISIONS
from servemark.kernels.measurement.probe import PROBE_S, probes_of
from servemark.kernels.measurement.sensors import KEYS, sensors_of
from servemark.kernels.measurement.timing import MIN_SAMPLES, Call, Samples, rotating, time_on_cpu, time_on_gpu
from servemark.results.schema.header import unknown
from servemark.results.schema.kernels import Bound as Ceiled
from servemark.results.schema.kernels import Cache, Ceiling, KernelCase, Probe, Published, Status

MAX_COPIES = 4096
"""Of a kernel's tensors, to fill the cache with."""
CACHES = 2
"""Last-level caches that cold tensors fill: one less, and the oldest might still be there."""
MIB = 1 << 20
LIBRARY_NAMES = {TORCH: "PyTorch"}
MEASURED = ("error", "ms", "tflops", "gbps", "compute_share", "bandwidth_share", "bound", "bound_share", "probe", *KEYS)


@dataclass(frozen=True)
class Case:
    """One kernel of a suite, in one precision."""

    family: str
    kernel: Kernel
    precision: str = "fp32"
    source: str = ""
    count: int = 1
    """How often an inference calls it."""
    library: str = TORCH
    published: tuple[Published, ...] = ()
    """What others have measured."""

    @classmethod
    def of(cls, family: str, source: str = "", **sizes: object) -> Self:
        """A case by its family and sizes. Raises OptionError on an unknown family."""
        return cls(family, make_kernel(family, sizes), source=source)

    def __str__(self) -> str:
        words = f"{self.family} {self.kernel.label()} {self.precision}"
        return words if self.library == TORCH else f"{words} {self.library}"

    def floor_s(self, ceiling: Ceiling, cache: Cache = "hot") -> dict[Ceiled, float]:
        """The least time (s) that each ceiling allows; a hot cache's bandwidth is that of the bytes of one call."""
        traffic = self.kernel.traffic(self.precision)
        level, gbps = bandwidth(ceiling, traffic if cache == "hot" else math.inf)
        return {
            "compute": self.kernel.flops() / (ceiling["tflops"] * 1e12),
            level: traffic / (gbps * 1e9),
            "latency": ceiling["call_us"] / 1e6,
        }


def bandwidth(ceiling: Ceiling, working_set: float) -> tuple[Ceiled, float]:
    """Where a working set (bytes) lies, and its highest bandwidth (GB/s): of the largest measured one within it.

    It is the cache's where it lies nearer to the highest of all than to the memory's, as ratios.
    """
    bandwidths = ceiling["bandwidths"]
    within = [each["gbps"] for each in bandwidths if each["mib"] * MIB <= working_set]
    highest, memory = bandwidths[0]["gbps"], bandwidths[-1]["gbps"]
    gbps = within[-1] if within else highest
    return ("cache" if gbps > math.sqrt(highest * memory) else "memory"), gbps


def once(cases: Iterable[Case]) -> list[Case]:
    """Equal kernels once, in the order of the first, with the sources of all: "DeepBench, Resnet; Vision"."""
    found: dict[Kernel, Case] = {}
    for case in cases:
        known = found.setdefault(case.kernel, case)
        if case.source not in known.source:
            more = case.source.rpartition(", ")[2]
            found[case.kernel] = replace(known, source=f"{known.source}; {more}")
    return list(found.values())


@dataclass(frozen=True)
class Method:
    """How cases are measured."""

    device: Device
    cache: Cache = "hot"
    limit_s: float = 60.0
    budget_s: float = 1.0


class Unmeasured(Exception):  # noqa: N818 - a skipped case is no error
    """A case ends without a time."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def measure(case: Case, method: Method, ceiling: Ceiling | None = None) -> KernelCase:
    """Check and time a case; whatever goes wrong is in what it returns. `ceiling` is that of its precision."""
    import torch

    quieten()
    try:
        with torch.no_grad(), _products_in("tf32" if case.precision == "tf32" else "ieee"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _measure(case, method, ceiling)
    except Unmeasured as ended:
        return blank(case, method.device, ended.status, str(ended))
    except Exception as error:  # what libraries raise has no base
        words = str(error).strip().split("\n", maxsplit=1)[0] or type(error).__name__
        memory = isinstance(error, MemoryError | torch.OutOfMemoryError) or "DefaultCPUAllocator" in words
        return blank(
            case,
            method.device,
            "skipped" if memory else "failed",
            f"{LIBRARY_NAMES.get(case.library, case.library)}: {words}",
        )


@contextlib.contextmanager
def _products_in(numbers: str) -> Iterator[None]:
    """Set how products of fp32 are computed; put back, because torch.export refuses a process where it is set."""
    import torch

    backends: Any = torch.backends
    before = backends.fp32_precision
    backends.fp32_precision = numbers
    try:
        yield
    finally:
        backends.fp32_precision = before


def blank(case: Case, device: Device, status: Status, reason: str | None) -> KernelCase:
    """A case of which only the counts are known."""
    kernel, traffic = case.kernel, case.kernel.traffic(case.precision)
    sizes = {name: list(size) if isinstance(size, tuple) else size for name, size in kernel.sizes().items()}
    known = {
        "family": case.family,
        "label": kernel.label(),
        "sizes": sizes,
        "precision": case.precision,
        "library": case.library,
        "source": case.source,
        "count": case.count,
        "status": status,
        "flops": kernel.flops(),
        "bytes": traffic,
        "intensity": kernel.flops() / traffic,
        "algorithm": _algorithm(case, device),
        "tolerance": PRECISIONS[case.precision].tolerance,
        "published": list(case.published),
        "figures": {},
        **dict.fromkeys(MEASURED),
        "reason": reason,
    }
    return cast(KernelCase, known)


def _algorithm(case: Case, device: Device) -> str:
    node = case.kernel.node() if case.library != TORCH else None
    return f"ONNX's {node.operator}" if node else case.kernel.algorithm(case.precision, device.name)


def refusal(case: Case, device: Device) -> str | None:
    """Why a device, or a library, cannot run a case at all, None where it can."""
    if case.library != TORCH:
        node = case.kernel.node()
        if node is None:
            return f"{case.library}: {case.family} of these sizes is no single node of ONNX"
        if case.precision != "fp32" or device.is_gpu:
            return f"{case.library} computes in fp32 on the CPU here"
        if lack := library(case.library).lacks(node):
            return lack
    if case.precision not in case.kernel.PRECISIONS:
        return f"{case.family} has no {case.precision}"
    return device.lacks(case.precision) or case.kernel.refusal(case.precision, device.name, device.cores)


def needed_bytes(case: Case, method: Method) -> int:
    """Memory for the tensors, their copies, and as float64 for the check."""
    held, traffic = case.kernel.held_bytes(case.precision), case.kernel.traffic(case.precision)
    return held * copies(traffic, method) + traffic * 2 * 8 // PRECISIONS[case.precision].read_bytes


def copies(traffic: int, method: Method) -> int:
    """How many sets of tensors are made: one, or as many as fill the cache."""
    return 1 if method.cache == "hot" else math.ceil(CACHES * method.device.cache_bytes / traffic) + 1


def _measure(case: Case, method: Method, ceiling: Ceiling | None) -> KernelCase:
    device = method.device
    reason = refusal(case, device)
    if reason:
        raise Unmeasured("skipped", reason)
    _check_room(case, method)
    if ceiling:
        _check_time(max(case.floor_s(ceiling).values()), method)
    made = [_bind(case, device)]
    try:
        first_s = _first(made[0], device)
        _check_time(first_s, method)
        error = error_of(case, made[0])
        if not error <= PRECISIONS[case.precision].tolerance:
            raise Unmeasured("failed", f"wrong: off by {error:.2g} of the largest value that float64 expects")
        sets = copies(case.kernel.traffic(case.precision), method)
        made += [_bind(case, device, seed) for seed in range(1, sets)]
        call = rotating([each.call for each in made])
        probe = _probe(method)
        samples = _timed(call, first_s, method)
        fixed = _fixed(case, samples.median, method)
        felt = sensors_of(device.name).feel(call, lambda: _wait(device))
    finally:
        for each in made:
            each.release()
    found = _judged(blank(case, device, "measured", None), case, samples, error, ceiling, method.cache)
    return cast(KernelCase, found | felt | {"probe": probe, "figures": found["figures"] | fixed})


def _bind(case: Case, device: Device, seed: int = 0) -> Bound:
    """The kernel with tensors, in the case's library."""
    bound = case.kernel.bind(Maker(case.precision, device.name, seed))
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
    """How far a call's answer lies from float64, as a share of the largest expected value."""
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


def _first(bound: Bound, device: Device) -> float:
    """Seconds of the first call, which may prepare things."""
    begun = time.perf_counter()
    bound.call()
    _wait(device)
    return time.perf_counter() - begun


def _timed(call: Call, first_s: float, method: Method) -> Samples:
    if method.device.is_gpu:
        import torch

        with torch.cuda.device(method.device.name):
            synchronize = torch.cuda.synchronize
            return time_on_gpu(call, lambda: torch.cuda.Event(enable_timing=True), synchronize, method.budget_s)
    return time_on_cpu(call, first_s, method.device.cores, method.budget_s)


def _probe(method: Method) -> Probe:
    """How fast the machine is now (ms)."""
    short, warm_s = replace(method, budget_s=PROBE_S), math.inf  # so slow a call asks for no warm-up
    with _products_in("ieee"):
        times = {name: _timed(call, warm_s, short).median * 1e3 for name, call in probes_of(method.device).items()}
    return cast(Probe, times)


def _fixed(case: Case, seconds: float, method: Method) -> dict[str, float]:
    """What a call takes however many steps it has (ms), from the time of fewer steps: t = fixed + steps * each."""
    shorter = case.kernel.shorter()
    if shorter is None or case.library != TORCH:
        return {}
    bound = shorter.bind(Maker(case.precision, method.device.name))
    share = shorter.flops() / case.kernel.flops()
    fewer_s = _timed(bound.call, _first(bound, method.device), method).median
    return {"fixed_ms": (fewer_s - share * seconds) / (1 - share) * 1e3}


def _wait(device: Device) -> None:
    if device.is_gpu:
        import torch

        torch.cuda.synchronize(device.name)


def _judged(
    found: KernelCase, case: Case, samples: Samples, error: float, ceiling: Ceiling | None, cache: Cache
) -> KernelCase:
    """The case with its figures."""
    seconds = samples.median
    tflops, gbps = found["flops"] / seconds / 1e12, found["bytes"] / seconds / 1e9
    found |= {"error": error, "ms": samples.document(), "figures": case.kernel.figures(seconds)}
    found |= {"tflops": tflops, "gbps": gbps}
    if ceiling is None:
        shares = ("compute_share", "bandwidth_share", "bound", "bound_share")
        found |= cast(KernelCase, unknown(shares, "this case is a ceiling itself"))
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


def quieten() -> None:
    """Keep PyTorch's words about compilers that nobody asked for out of the progress."""
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)


def cases_in(precisions: Sequence[str], cases: Sequence[Case], names: Sequence[str] = (TORCH,)) -> list[Case]:
    """Each case in each precision, by each library: those stand side by side."""
    every = itertools.product(precisions, cases, names)
    return [replace(case, precision=precision, library=name) for precision, case, name in every]
