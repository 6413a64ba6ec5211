"""A GPU's data sheet: the highest dense rates of its tensor cores, fp32's of its other units, and its memory.

NVIDIA's data sheets give some rates with sparsity: half of those stands here. Boost clocks are assumed there.
"""

from typing import NamedTuple

from servemark.stats.unknown import or_unknown, unknown


class Sheet(NamedTuple):
    """A board's figures. A precision that it lacks is missing."""

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
