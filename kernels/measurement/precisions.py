"""Precisions of kernels: bytes of an element, how far from float64 an output may lie, and which devices have them."""

from typing import NamedTuple


class Precision(NamedTuple):
    """Properties of a kernel's elements in a precision."""

    dtype: str
    """torch's name of the inputs' type."""
    read_bytes: int
    """Of an input's element."""
    written_bytes: int
    """Of an output's element: int8 products are int32 sums, fp8 ones are written as bf16."""
    tolerance: float
    """Largest error that is right, as a share of the largest expected value."""
    capability: tuple[int, int]
    """CUDA's compute capability from which its units exist."""


PRECISIONS = {
    "fp32": Precision("float32", 4, 4, 1e-4, (0, 0)),
    "tf32": Precision("float32", 4, 4, 1e-2, (8, 0)),
    "bf16": Precision("bfloat16", 2, 2, 4e-2, (8, 0)),
    "fp16": Precision("float16", 2, 2, 1e-2, (7, 0)),
    "int8": Precision("int8", 1, 4, 0.0, (7, 5)),
    "fp8": Precision("float8_e4m3fn", 1, 2, 4e-2, (8, 9)),
}
"""Tolerances are some ten roundings of the type (2^-8 of bf16): a wrong element is off by a large part of its size."""
FLOATING = ("fp32", "tf32", "bf16", "fp16")
CPU_FEATURES = {
    "bf16": ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16"),
    "fp16": ("avx512_fp16", "amx_fp16", "fphp", "asimdhp"),
    "int8": ("avx2", "avx512_vnni", "avx_vnni", "amx_int8", "dotprod", "asimddp"),
}
"""Instructions of which a CPU has one, by the names that the kernel gives them in /proc/cpuinfo."""


def refusal(precision: str, device: str, features: set[str], capability: tuple[int, int] | None) -> str | None:
    """Return the reason why a device lacks a precision, None if it has it.

    `features` are a CPU's instructions, `capability` is a GPU's; each counts on its own device only.
    """
    if device != "cpu":
        least = PRECISIONS[precision].capability
        if capability is not None and capability >= least:
            return None
        return f"{precision} needs compute capability {least[0]}.{least[1]}"
    if precision == "fp32":
        return None
    wanted = CPU_FEATURES.get(precision)
    if wanted is None:
        return f"no CPU computes in {precision}"
    return None if features.intersection(wanted) else f"{precision} needs a CPU with {' or '.join(wanted)}"
