"""The ceilings of a precision, put together from their parts. Bytes are bytes, so all precisions share the bandwidths.

What cannot be measured is left out with a word. Nothing here ends a run. Beside them stands what a GPU's data sheet
promises: the highest dense rates of its tensor cores, fp32's of its other units, and its memory.

One roof of bandwidth is not enough where data stays in a cache. So the bandwidth is measured by working set, from what
each core's cache holds to what none does (the cache-aware roofline: Ilic, Pratas and Sousa, IEEE Computer Architecture
Letters 13(1), 2014; the hierarchical one: Yang, Kurth and Williams, Concurrency and Computation 32(20), 2020).

A virtual machine reports the cache of its host, of which its cores hold a part, or none at all. What they hold is the
knee of the bandwidth over the size. A GPU is given whole and reports its own cache, which has no knee to look for: a
copy that fits into it takes no longer than its launch (H200, 32 MiB of 60: 7.5 us, of which 6.5 are the call).
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kernels.ceilings.kept import Kept, KeptPart, Source
from kernels.ceilings.parts import FILL_S, bandwidth_gbps, call_us, product_tflops, products, size_words
from kernels.measurement.case import MIB
from kernels.measurement.device import USUAL_CACHE_BYTES, Device
from servemark.results.schema.kernels import Bandwidth, Ceiling
from servemark.stats.unknown import explained, or_unknown, unknown


class Sheet(NamedTuple):
    """A board's figures. A precision that it lacks is missing.

    NVIDIA's data sheets give some rates with sparsity: half of those stands here. Boost clocks are assumed there.
    """

    gbps: float
    """Of its memory (GB/s)."""
    tflops: dict[str, float]
    """By precision (TFLOP/s, or TOP/s of int8)."""


def _sheet(gbps: float, fp32: float, tf32: float, half: float, int8: float, fp8: float = 0.0) -> Sheet:
    rates = {"fp32": fp32, "tf32": tf32, "bf16": half, "fp16": half, "int8": int8, "fp8": fp8}
    return Sheet(gbps, {precision: rate for precision, rate in rates.items() if rate})


_AMPERE = (19.5, 156.0, 312.0, 624.0)
_HOPPER = (67.0, 494.7, 989.4, 1978.9, 1978.9)
SHEETS = {
    "H200": _sheet(4800, *_HOPPER),
    "H100 80GB HBM3": _sheet(3350, *_HOPPER),
    "H100 PCIe": _sheet(2000, 51, 378, 756, 1513, 1513),
    "A100-SXM4-80GB": _sheet(2039, *_AMPERE),
    "A100-SXM4-40GB": _sheet(1555, *_AMPERE),
    "A100 80GB PCIe": _sheet(1935, *_AMPERE),
    "A100-PCIE-40GB": _sheet(1555, *_AMPERE),
    "L40S": _sheet(864, 91.6, 183, 362, 733, 733),
    "L4": _sheet(300, 30.3, 60, 121, 242.5, 242.5),
    "A10": _sheet(600, 31.2, 62.5, 125, 250),
    "T4": Sheet(320, {"fp32": 8.1, "fp16": 65, "int8": 130}),
    "V100-SXM2": Sheet(900, {"fp32": 15.7, "fp16": 125}),
}
"""By a part of the name that the driver gives the board."""


def sheet_of(board: str) -> Sheet | None:
    """The data sheet of a board by the driver's name of it, such as "NVIDIA H100 80GB HBM3". None: not known here."""
    words = f"{board} ".replace("Tesla ", "NVIDIA ")
    # A name ends where its words end: L4 is not L40S, A10 is not A100.
    return next((sheet for name, sheet in SHEETS.items() if f" {name} " in words or f" {name}-" in words), None)


def promised(board: str | None, precision: str) -> tuple[float | None, float | None]:
    """Return what the data sheet promises: 10^12 operations/s and 10^9 bytes/s; unknown where there is none."""
    sheet = sheet_of(board) if board else None
    if sheet is None:
        reason = f"no data sheet of {board} is known here" if board else "a CPU's data sheet says neither"
        return unknown(reason), unknown(reason)
    return or_unknown(sheet.tflops.get(precision), f"the data sheet has no {precision}"), sheet.gbps


SETS_S = 45.0
"""Longest time of all working sets but the largest together (s)."""
PRODUCT_COST_S, LARGEST_COST_S, SET_COST_S, CALL_COST_S = 3.0, 8.0, 0.9, 1.0
"""Time of each part on two quiet cores (s), from which the remaining time is estimated."""
USUAL_SETS = 12
"""Number of working sets that are usually measured before the bandwidth settles."""
PRODUCT, SET, CALL = "product {}", "working set {}", "call"
"""Names of kept parts."""
SMALLEST_BYTES = 128 << 10
CACHES = 8
"""Last-level caches that the largest working set fills: of a smaller one a part would come from the cache."""
MIN_LARGEST_BYTES = CACHES * USUAL_CACHE_BYTES
HIDDEN_BYTES = 128 << 20
"""The most that cores are taken to hold where the system reports less, or nothing."""
FREE_SHARE = 0.25
"""Of the free memory, for the largest working set: other programs need some meanwhile."""
SETTLED = 1.1
"""A bandwidth within this ratio of the memory's is the memory's, where the next one is too."""
STEP = 1.25
"""A bandwidth above this ratio of the memory's is a cache's."""
BEYOND = 2
"""Reported caches that a working set has to exceed before it is known to come from memory."""


@explained
def ceiling_of(
    source: Source, known: Ceiling | None = None, clock: Callable[[], float] = time.monotonic
) -> Ceiling | None:
    """Measure the ceilings of a precision; None where one cannot be measured. `known` is another precision's.

    Raises KeyboardInterrupt; what has been measured until then is kept.
    """
    device = source.method.device
    tried = [
        source.get(PRODUCT.format(case), "TFLOP/s", PRODUCT_COST_S, product_tflops, case)
        for case in products(source.precision, device)
    ]
    rates = [part for part in tried if part]
    if known:
        bandwidths, latency_us = known["bandwidths"], known["call_us"]
    else:
        bandwidths, call = _bandwidths(source, clock), source.get(CALL, "us", CALL_COST_S, call_us)
        latency_us = call["value"] if call else 0.0
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
    wanted = {PRODUCT.format(case): PRODUCT_COST_S for case in products(precision, device)}
    if first:
        wanted[CALL] = CALL_COST_S
        sizes, _ = fitting(working_sets(device.cache_bytes), device.available_bytes())
        if sizes:
            wanted[SET.format(sizes[-1])] = LARGEST_COST_S + USUAL_SETS * SET_COST_S
    return sum(cost for name, cost in wanted.items() if kept.get(name) is None)


def _bandwidths(source: Source, clock: Callable[[], float]) -> list[Bandwidth]:
    """Measure from the smallest working set to where they settle, and the largest, which is measured first."""
    device = source.method.device
    sizes, lacking = fitting(working_sets(device.cache_bytes), device.available_bytes())
    source.leave_out(lacking)
    largest = _bandwidth(source, sizes, LARGEST_COST_S) if sizes else None
    if largest is None:
        return []
    last = largest["size_bytes"]
    if last < sizes[-1]:
        source.leave_out(f"working sets above {size_words(last)}: they take more than {FILL_S:g} s to fill")
    source.leave_out(doubt(last, device.cache_bytes))
    smaller = _smaller(source, [size for size in sizes if size < last], largest["value"], clock)
    return falling([*smaller, _step(largest)])


def _smaller(source: Source, sizes: Sequence[int], memory_gbps: float, clock: Callable[[], float]) -> list[Bandwidth]:
    """Measure in ascending order, until the bandwidth has settled at the memory's, or the time is over."""
    found: list[Bandwidth] = []
    begun = clock()
    for size in sizes:
        if settled(found, memory_gbps):
            break
        if clock() - begun > SETS_S:
            least = size_words(size)
            source.leave_out(f"working sets of {least} and more: the smaller ones have taken {SETS_S:g} s")
            break
        part = _bandwidth(source, [size], SET_COST_S)
        if part and disturbed(found, part["value"], memory_gbps):
            words = f"working set of {size_words(size)}"
            source.leave_out(f"{words}: other work disturbed it, {part['value']:.3g} GB/s are less than the memory's")
        elif part:
            found.append(_step(part))
    return found


def _bandwidth(source: Source, sizes: Sequence[int], expected_s: float) -> KeptPart | None:
    """Measure the bandwidth of the largest of these working sets that is filled in time."""
    return source.get(SET.format(sizes[-1]), "GB/s", expected_s, bandwidth_gbps, sizes)


def _step(part: KeptPart) -> Bandwidth:
    return {"mib": part["size_bytes"] / MIB, "gbps": part["value"], "of": part["of"]}


def working_sets(cache_bytes: int) -> list[int]:
    """Working sets (bytes), each twice the one before, up to several times the reported cache."""
    largest = max(CACHES * cache_bytes, MIN_LARGEST_BYTES)
    found = [SMALLEST_BYTES]
    while found[-1] < largest:
        found.append(2 * found[-1])
    return found


def fitting(wanted: Sequence[int], free_bytes: int) -> tuple[list[int], str | None]:
    """Those that the free memory has room for, and what is said of the others."""
    room = int(FREE_SHARE * free_bytes)
    found = [size for size in wanted if size <= room]
    if len(found) == len(wanted):
        return found, None
    above = f"working sets above {size_words(found[-1])}" if found else "all working sets"
    return found, f"{above}: {FREE_SHARE:.0%} of the free memory are {size_words(room)}"


def settled(found: Sequence[Bandwidth], memory_gbps: float) -> bool:
    """Return True if the last two bandwidths are the memory's: larger working sets then tell nothing new."""
    return len(found) > 1 and all(memory_gbps / SETTLED <= each["gbps"] <= SETTLED * memory_gbps for each in found[-2:])


def disturbed(found: Sequence[Bandwidth], gbps: float, memory_gbps: float) -> bool:
    """Return True if a set is far slower than memory, after smaller ones were faster: other work took the cores."""
    return gbps * STEP < memory_gbps and any(each["gbps"] > STEP * memory_gbps for each in found)


def falling(found: Iterable[Bandwidth]) -> list[Bandwidth]:
    """Bandwidths by working set, ascending, none below that of a larger set: small calls are slowed by calling."""
    highest: list[Bandwidth] = []
    for each in sorted(found, key=lambda each: each["mib"], reverse=True):
        last = highest[-1] if highest else each
        highest.append(each if each["gbps"] >= last["gbps"] else {**last, "mib": each["mib"]})
    return highest[::-1]


def held_bytes(found: Sequence[Bandwidth], reported_bytes: int) -> int:
    """Return the cache that these cores hold: the first working set as slow as memory, after the last that is faster.

    It is never more than the system reports or may hide: other work makes a set of any size look slow or fast.
    """
    most = max(reported_bytes, HIDDEN_BYTES)
    if not found:
        return min(reported_bytes, USUAL_CACHE_BYTES)
    fast = [each["mib"] for each in found if each["gbps"] > STEP * found[-1]["gbps"]]
    beyond = [each["mib"] for each in found if not fast or each["mib"] > fast[-1]]
    return min(int(beyond[0] * MIB), most)


def doubt(largest_bytes: int, reported_bytes: int) -> str | None:
    """Return a note if the largest working set may have come from a cache, else None."""
    if largest_bytes >= BEYOND * reported_bytes:
        return None
    reported = size_words(reported_bytes)
    return (
        f"working sets above {size_words(largest_bytes)}, though the system reports a cache of {reported}: "
        "the memory may be slower than the slowest of them"
    )
