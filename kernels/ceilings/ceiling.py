"""The ceilings of a precision, put together from their parts. Bytes are bytes, so all precisions share the bandwidths.

What cannot be measured is left out with a word. Nothing here ends a run.
"""

import time
from collections.abc import Callable, Sequence

from kernels.ceilings import working_sets
from kernels.ceilings.kept import Kept, KeptPart
from kernels.ceilings.parts import FILL_S, bandwidth_gbps, call_us, product_tflops, products
from kernels.ceilings.source import Source
from kernels.ceilings.vendor import promised
from kernels.measurement.case import MIB, Case
from kernels.measurement.device import Device
from servemark.results.schema.kernels import Bandwidth, Ceiling
from servemark.stats.unknown import explained

SETS_S = 45.0
"""Longest time of all working sets but the largest together (s)."""
PRODUCT_COST_S, LARGEST_COST_S, SET_COST_S, CALL_COST_S = 3.0, 8.0, 0.9, 1.0
"""Time of each part on two quiet cores (s), from which the remaining time is estimated."""
USUAL_SETS = 12
"""Number of working sets that are usually measured before the bandwidth settles."""
CALL = "call"


@explained
def ceiling_of(
    source: Source, known: Ceiling | None = None, clock: Callable[[], float] = time.monotonic
) -> Ceiling | None:
    """Measure the ceilings of a precision; None where one cannot be measured. `known` is another precision's.

    Raises KeyboardInterrupt; what has been measured until then is kept.
    """
    device = source.method.device
    tried = [
        source.get(_product(case), "TFLOP/s", PRODUCT_COST_S, product_tflops, case)
        for case in products(source.precision, device)
    ]
    rates = [part for part in tried if part]
    bandwidths = known["bandwidths"] if known else _bandwidths(source, clock)
    latency_us = known["call_us"] if known else _call_us(source)
    if not (rates and bandwidths and latency_us):
        return None
    best = max(rates, key=lambda part: part["value"])
    shares = [part["other_cpu_share"] for part in source.parts if part["other_cpu_share"] is not None]
    tflops, gbps = promised(device.board, source.precision)
    return {
        "precision": source.precision,
        "tflops": best["value"],
        "tflops_of": best["of"],
        "bandwidths": bandwidths,
        "call_us": latency_us,
        "vendor_tflops": tflops,
        "vendor_gbps": gbps,
        "measured": min(part["measured"] for part in source.parts),
        "reused": source.reused,
        "other_cpu_share": max(shares, default=None),
    }


def cost_s(precision: str, device: Device, kept: Kept, *, first: bool) -> float:
    """Estimate how long those of a precision take that are not kept (s); bandwidths belong to the `first` alone."""
    wanted = {_product(case): PRODUCT_COST_S for case in products(precision, device)}
    sizes, _ = _sizes(device)
    if first:
        wanted[CALL] = CALL_COST_S
    if first and sizes:
        wanted[_set(sizes)] = LARGEST_COST_S + USUAL_SETS * SET_COST_S
    return sum(cost for name, cost in wanted.items() if kept.get(name) is None)


def _call_us(source: Source) -> float | None:
    found = source.get(CALL, "us", CALL_COST_S, call_us)
    return found["value"] if found else None


def _bandwidths(source: Source, clock: Callable[[], float]) -> list[Bandwidth]:
    """Measure from the smallest working set to where they settle, and the largest, which is measured first."""
    device = source.method.device
    sizes, lacking = _sizes(device)
    source.leave_out(lacking)
    largest = _bandwidth(source, sizes, LARGEST_COST_S) if sizes else None
    if largest is None:
        return []
    last = largest["size_bytes"]
    if last < sizes[-1]:
        source.leave_out(f"working sets above {working_sets.words(last)}: they take more than {FILL_S:g} s to fill")
    source.leave_out(working_sets.doubt(last, device.cache_bytes))
    smaller = _smaller(source, [size for size in sizes if size < last], largest["value"], clock)
    return working_sets.falling([*smaller, _step(largest)])


def _smaller(source: Source, sizes: Sequence[int], memory_gbps: float, clock: Callable[[], float]) -> list[Bandwidth]:
    """Measure in ascending order, until the bandwidth has settled at the memory's, or the time is over."""
    found: list[Bandwidth] = []
    begun = clock()
    for size in sizes:
        if working_sets.settled(found, memory_gbps):
            break
        if clock() - begun > SETS_S:
            least = working_sets.words(size)
            source.leave_out(f"working sets of {least} and more: the smaller ones have taken {SETS_S:g} s")
            break
        part = _bandwidth(source, [size], SET_COST_S)
        if part and working_sets.disturbed(found, part["value"], memory_gbps):
            words = f"working set of {working_sets.words(size)}"
            source.leave_out(f"{words}: other work disturbed it, {part['value']:.3g} GB/s are less than the memory's")
        elif part:
            found.append(_step(part))
    return found


def _bandwidth(source: Source, sizes: Sequence[int], expected_s: float) -> KeptPart | None:
    """Measure the bandwidth of the largest of these working sets that is filled in time."""
    return source.get(_set(sizes), "GB/s", expected_s, bandwidth_gbps, sizes)


def _sizes(device: Device) -> tuple[list[int], str | None]:
    """Return the working sets that the memory has room for, and a note about the others."""
    return working_sets.fitting(working_sets.sizes(device.cache_bytes), device.available_bytes())


def _product(case: Case) -> str:
    return f"product {case}"


def _set(sizes: Sequence[int]) -> str:
    return f"working set {sizes[-1]}"


def _step(part: KeptPart) -> Bandwidth:
    return {"mib": part["size_bytes"] / MIB, "gbps": part["value"], "of": part["of"]}
