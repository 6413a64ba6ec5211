"""The highest rates of a device: large products, copies and reads of every working set, and a call that does nothing.

One roof of bandwidth is not enough where data stays in a cache. So the bandwidth is measured by working set, from what
each core's cache holds to what none does (the cache-aware roofline: Ilic, Pratas and Sousa, IEEE Computer Architecture
Letters 13(1), 2014; the hierarchical one: Yang, Kurth and Williams, Concurrency and Computation 32(20), 2020).

A ceiling is the rate of the fastest sample, as STREAM's is, while a case is judged by its median.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from servemark.errors import ServerError
from servemark.kernels.measurement.case import Case, Method, measure
from servemark.kernels.measurement.device import Device
from servemark.kernels.measurement.vendor import promised
from servemark.results.schema.kernels import Bandwidth, Ceiling, KernelCase

PRODUCT = {"cpu": 2048, "gpu": 8192}
"""Side of the square matrices."""
REDUCED = 2
"""By so much smaller on a CPU in other precisions than fp32, which PyTorch may compute in a plain loop."""
SMALLEST_SET_BYTES = 128 << 10
CACHES = 8
"""Last-level caches that the largest working set fills: of a smaller one a part would come from the cache."""
MIN_LARGEST_BYTES = 128 << 20
OPERATIONS = {"copy": 2, "triad": 3, "sum": 1}
"""What moves data, and how many tensors it touches. A sum only reads, as most of a product of a vector does."""
SMALLEST = 16
"""Elements of the call that computes almost nothing."""
PROBE_S, PRODUCT_S = 0.1, 0.5
"""How long each of them is timed."""


def ceiling_of(precision: str, method: Method, known: Ceiling | None = None) -> Ceiling:
    """Measure them in one precision, with a hot cache. Raises ServerError where the device cannot even do that.

    `known` is another precision's ceiling: bytes are bytes, so its bandwidths hold.
    """
    warm = Method(method.device, limit_s=float("inf"), budget_s=PROBE_S)
    long = replace(warm, budget_s=PRODUCT_S)
    products = [_found(case, precision, long) for case in _products(precision, method.device)]
    product = max(products, key=lambda found: found["flops"] / _fastest_s(found))
    found = {
        "precision": precision,
        "tflops": product["flops"] / _fastest_s(product) / 1e12,
        "tflops_of": f"{product['family']} {product['label']}",
        "bandwidths": known["bandwidths"]
        if known
        else falling([_bandwidth(size, warm) for size in _sets(warm.device)]),
        "call_us": known["call_us"] if known else _call_us(warm),
    }
    return cast(Ceiling, found | promised(method.device.board, precision))


def falling(found: Iterable[Bandwidth]) -> list[Bandwidth]:
    """Bandwidths by working set, ascending, none below that of a larger set: small calls are slowed by calling."""
    highest: list[Bandwidth] = []
    for each in sorted(found, key=lambda each: each["mib"], reverse=True):
        last = highest[-1] if highest else each
        highest.append(each if each["gbps"] >= last["gbps"] else {**last, "mib": each["mib"]})
    return highest[::-1]


def _products(precision: str, device: Device) -> list[Case]:
    """What a library may do best: a product, one with A transposed, and on a CPU a direct convolution (oneDNN's)."""
    side = PRODUCT["gpu"] if device.is_gpu else PRODUCT["cpu"] // (1 if precision == "fp32" else REDUCED)
    cases = [Case.of("gemm", m=side, n=side, k=side, a_t=True)]
    if precision != "fp8":
        cases.append(Case.of("gemm", m=side, n=side, k=side))
    if not device.is_gpu and precision != "int8":
        sizes: dict[str, Any] = {"size": (28, 28), "filter": (3, 3), "padding": (1, 1)}
        channels = max(side // 8, 1)
        cases.append(Case.of("convolution", n=4, c=channels, k=channels, **sizes))
    return cases


def _sets(device: Device) -> list[int]:
    """Working sets (bytes), each twice the one before."""
    largest = max(CACHES * device.cache_bytes, MIN_LARGEST_BYTES)
    return [SMALLEST_SET_BYTES << step for step in range(math.ceil(math.log2(largest / SMALLEST_SET_BYTES)) + 1)]


def _bandwidth(size_bytes: int, method: Method) -> Bandwidth:
    """The highest of a working set."""
    cases = [
        Case.of("memory", operation=operation, length=size_bytes // 4 // tensors)
        for operation, tensors in OPERATIONS.items()
    ]
    best = max((_found(case, "fp32", method) for case in cases), key=lambda found: found["bytes"] / _fastest_s(found))
    gbps = best["bytes"] / _fastest_s(best) / 1e9
    return {"mib": size_bytes / (1 << 20), "gbps": gbps, "of": f"memory {best['label']}"}


def _call_us(method: Method) -> float:
    cases = [
        Case.of("memory", operation="scale", length=SMALLEST),
        Case.of("memory", operation="copy", length=SMALLEST),
        Case.of("activation", function="relu", length=SMALLEST),
    ]
    return min(_fastest_s(_found(case, "fp32", method)) for case in cases) * 1e6


def _fastest_s(found: KernelCase) -> float:
    assert found["ms"]
    return found["ms"]["min"] / 1e3


def _found(case: Case, precision: str, method: Method) -> KernelCase:
    found = measure(Case(case.family, case.kernel, precision), method)
    if found["status"] != "measured":
        raise ServerError(
            f"the ceiling {case} on {method.device.name} was {found['status']}: {found.get('reason')}",
            fix="use another --device or --precision, or free its memory",
        )
    return found
