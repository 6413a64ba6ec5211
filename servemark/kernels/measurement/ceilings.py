"""The highest rates of a device: a large matrix product, a large copy, and a call that computes almost nothing."""

from servemark.errors import ServerError
from servemark.kernels.measurement.case import Case, Method, measure
from servemark.results.schema.kernels import Ceiling, KernelCase

PRODUCT = {"cpu": 2048, "gpu": 8192}
"""Side of the square matrices."""
REDUCED = 2
"""By so much smaller on a CPU in other precisions than fp32, which PyTorch may compute in a plain loop."""
MIN_COPY_BYTES = 64 << 20
COPY_CACHES = 4
"""Last-level caches that each side of the copy fills: less, and a part would come from the cache."""
SMALLEST = 16
"""Elements."""


def ceiling_of(precision: str, method: Method) -> Ceiling:
    """Measure them in one precision, with a hot cache. Raises ServerError where the device cannot even do that."""
    device = method.device
    warm = Method(device, limit_s=float("inf"), budget_s=method.budget_s)
    side = PRODUCT["gpu"] if device.is_gpu else PRODUCT["cpu"] // (1 if precision == "fp32" else REDUCED)
    size_bytes = max(MIN_COPY_BYTES, COPY_CACHES * device.cache_bytes)
    # int8 and fp8 have no arithmetic of vectors, and bytes are bytes.
    product = _found(Case.of("gemm", m=side, n=side, k=side, a_t=True), precision, warm)
    copy = _found(Case.of("memory", operation="copy", length=size_bytes // 4), "fp32", warm)
    smallest = _found(Case.of("memory", operation="scale", length=SMALLEST), "fp32", warm)
    assert product["tflops"]
    assert copy["gbps"]
    assert smallest["ms"]
    return {
        "precision": precision,
        "tflops": product["tflops"],
        "tflops_of": f"gemm {product['label']}",
        "gbps": copy["gbps"],
        "gbps_of": f"memory {copy['label']}",
        "call_us": smallest["ms"]["median"] * 1e3,
    }


def _found(case: Case, precision: str, method: Method) -> KernelCase:
    found = measure(Case(case.family, case.kernel, precision), method)
    if found["status"] != "measured":
        raise ServerError(
            f"the ceiling {case} on {method.device.name} was {found['status']}: {found.get('reason')}",
            fix="use another --device or --precision, or free its memory",
        )
    return found
