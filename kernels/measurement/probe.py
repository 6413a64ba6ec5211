"""Speed of the machine itself just before a case is timed: a product and a copy, the same before each.

A virtual machine shares its clock, its caches and its memory with others. Neither load nor stolen time tells of that.
There are two probes because products and copies slow down at different times.
"""

import functools

from kernels.measurement.device import Device
from kernels.measurement.kernel import TensorFactory, make_kernel
from kernels.measurement.timing import Call

PROBE_S = 0.05
"""Time for each (s)."""
SIDE = 512
"""Of the product's square matrices."""
CACHES, MIN_COPY_BYTES = 2, 64 << 20
"""Last-level caches that the copy touches, and what it touches at least."""


@functools.cache
def probes_of(device: Device) -> dict[str, Call]:
    """The calls by the name of their figure; their tensors are made once in a process."""
    length = max(CACHES * device.cache_bytes, MIN_COPY_BYTES) // 8  # 4 bytes, read and written
    kernels = {
        "product_ms": make_kernel("gemm", {"m": SIDE, "n": SIDE, "k": SIDE}),
        "copy_ms": make_kernel("memory", {"operation": "copy", "length": length}),
    }
    return {name: kernel.bind(TensorFactory("fp32", device.name)).call for name, kernel in kernels.items()}
