"""How far an engine's outputs lie from eager PyTorch's: the export's parity check and the check under load."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Agreement:
    """How far an engine's outputs may lie from eager PyTorch's.

    Floating-point elements must satisfy |x - ref| <= atol + rtol * |ref|; of the integer elements (ids, counts) at
    least `min_match` must be equal, since a tie broken the other way is no error. Where `min_cosine` is given, each row
    of floating-point elements must be that similar to its reference, and single elements may lie anywhere.
    """

    atol: float = 1e-4
    rtol: float = 1e-3
    min_match: float = 1.0
    min_cosine: float | None = None

    def at(self, precision: str) -> "Agreement":
        """Return what is asked of an artifact of this precision: the workload's own limits hold for fp32 alone."""
        floor = REDUCED.get(precision)
        return replace(self, min_cosine=floor[0], min_match=min(floor[1], self.min_match)) if floor else self


PRECISIONS = ("fp32", "fp16", "bf16", "int8", "fp8")
"""What an artifact computes in; fp32 is the reference and the default."""
REDUCED: Mapping[str, tuple[float, float]] = {
    "fp16": (0.99, 0.9),
    "bf16": (0.99, 0.9),
    "int8": (0.9, 0.5),
    "fp8": (0.9, 0.5),
}
"""Precision -> smallest cosine similarity, smallest share of equal integers. Rounding moves every element, so this only
asks whether the model still does its work; how far it lies from fp32 is measured and shown beside every speed. fp8 gets
int8's: both round the weights and inputs of each product to 8 bits, to three of mantissa or to 1/254 of the largest."""


@dataclass(frozen=True)
class Discrepancy:
    """How far one output lies from its reference.

    The errors are None for integers (ids, counts), where they mean nothing, and where NaN or infinity was answered.
    """

    agrees: bool
    match_share: float
    """Share of elements within the tolerances, of integers: that are equal."""
    top1_share: float
    """Share of rows with the same first choice: the largest element, of integers the first in the list."""
    max_abs: float | None = None
    max_rel: float | None = None
    """Largest error relative to its row's largest element: relative to itself, an element near 0 would hide all."""
    cosine_min: float | None = None
    """Smallest cosine similarity of a row to its reference."""

    def __str__(self) -> str:
        errors = {key: value for key, value in asdict(self).items() if key != "agrees" and value is not None}
        return ", ".join(f"{key} {value:.3g}" for key, value in errors.items())


def compare_outputs(
    output: npt.NDArray[np.generic], reference: npt.NDArray[np.generic], agreement: Agreement
) -> Discrepancy:
    """Compare two arrays of the same shape and dtype, rows along dimension 0; NaN agrees with nothing."""
    if not np.issubdtype(reference.dtype, np.floating):
        equal = output.reshape(len(output), -1) == reference.reshape(len(reference), -1)
        share = float(equal.mean())
        return Discrepancy(share >= agreement.min_match, share, top1_share=float(equal[:, 0].mean()))
    ours = output.astype(np.float64).reshape(len(output), -1)
    theirs = reference.astype(np.float64).reshape(len(reference), -1)
    error, size = np.abs(ours - theirs), np.abs(theirs)
    within = error <= agreement.atol + agreement.rtol * size
    largest = size.max(axis=1, keepdims=True)
    cosines = _cosines(ours, theirs, within.all(axis=1))
    agrees = within.all() if agreement.min_cosine is None else cosines.min() >= agreement.min_cosine
    return Discrepancy(
        agrees=bool(agrees),
        match_share=float(within.mean()),
        top1_share=float((ours.argmax(axis=1) == theirs.argmax(axis=1)).mean()),
        max_abs=_finite(error.max()),
        max_rel=_finite((error / np.where(largest > 0, largest, 1)).max()),
        cosine_min=_finite(cosines.min()),
    )


def _cosines(ours: Rows, theirs: Rows, close: npt.NDArray[np.bool_]) -> Rows:
    """How alike the directions of rows are, NaN where one is not finite; zeros have none: 1 if they are close, or 0."""
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    with np.errstate(invalid="ignore"):
        cosines: Rows = (ours * theirs).sum(axis=1) / np.where(lengths == 0, 1, lengths)
    return np.where(lengths == 0, close, cosines)


def merge_discrepancies(
    parts: Sequence[tuple[int, Discrepancy]], agreement: Agreement, *, floating: bool
) -> Discrepancy:
    """How far all rows lie from their references, from comparisons of so many rows each."""
    rows = sum(count for count, _ in parts)
    found = [discrepancy for _, discrepancy in parts]
    match_share = sum(count * each.match_share for count, each in parts) / rows
    top1_share = sum(count * each.top1_share for count, each in parts) / rows
    return Discrepancy(
        agrees=all(each.agrees for each in found) if floating else match_share >= agreement.min_match,
        match_share=match_share,
        top1_share=top1_share,
        max_abs=_all_known(max, [each.max_abs for each in found]),
        max_rel=_all_known(max, [each.max_rel for each in found]),
        cosine_min=_all_known(min, [each.cosine_min for each in found]),
    )


def _all_known(choose: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return choose(known) if len(known) == len(values) else None


def _finite(value: np.floating[Any]) -> float | None:
    return float(value) if np.isfinite(value) else None
