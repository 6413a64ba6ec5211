"""Differences between an engine's outputs and eager PyTorch's: the export's parity check and the check under load."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt

from servemark.results.schema.metrics import Tolerance

Rows = npt.NDArray[np.float64]
"""Columns of figures for each row of an output: MATCH, TOP1, errors as negative numbers, COSINE; less is worse."""
MATCH, TOP1, MAX_ABS, MAX_REL, COSINE = range(5)


@dataclass(frozen=True)
class Agreement:
    """Limits for the difference between an engine's outputs and eager PyTorch's.

    Floating-point elements must satisfy |x - ref| <= atol + rtol * |ref|; of the integer elements (ids, counts) at
    least `min_match` must be equal, because a tie broken the other way is correct. If `min_cosine` is given, each row
    of floating-point elements must be that similar to its reference, and single elements may lie anywhere.
    """

    atol: float = 1e-4
    rtol: float = 1e-3
    min_match: float = 1.0
    min_cosine: float | None = None

    def at(self, precision: str) -> "Agreement":
        """Return the limits for an artifact of this precision: the workload's own limits hold for fp32 alone."""
        floor = REDUCED.get(precision)
        return replace(self, min_cosine=floor[0], min_match=min(floor[1], self.min_match)) if floor else self

    def applied(self, *, floats: bool, integers: bool) -> Tolerance:
        """Return the limits that apply to outputs of these kinds."""
        limits: Tolerance = {}
        if floats and self.min_cosine is None:
            limits = {"atol": self.atol, "rtol": self.rtol}
        elif floats and self.min_cosine is not None:
            limits = {"min_cosine": self.min_cosine}
        if integers:
            limits["min_match"] = self.min_match
        return limits


PRECISIONS = ("fp32", "fp16", "bf16", "int8", "fp8")
"""Precisions of an artifact's arithmetic; fp32 is the reference and the default."""
REDUCED: Mapping[str, tuple[float, float]] = {
    "fp16": (0.99, 0.9),
    "bf16": (0.99, 0.9),
    "int8": (0.9, 0.5),
    "fp8": (0.9, 0.5),
}
"""Precision -> smallest cosine similarity, smallest share of equal integers. Rounding moves every element, so these
limits only ask whether the model still works; its distance from fp32 is measured and shown with every speed. fp8 gets
int8's: both round the weights and inputs of each product to 8 bits, to three of mantissa or to 1/254 of the largest."""


@dataclass(frozen=True)
class Discrepancy:
    """Difference between one output and its reference, over a number of golden samples.

    The errors are None for integers (ids, counts), where they mean nothing, and if the answer holds NaN or infinity.
    """

    agrees: bool
    match_share: float
    """Share of elements within the tolerances; for integers, of equal elements."""
    samples: int
    top1_samples: int
    """Samples with the same first choice: the largest element or, of integers, the first in the list."""
    max_abs: float | None = None
    max_rel: float | None = None
    """Largest error relative to its row's largest element: relative to itself, an element near 0 would hide all."""
    cosine_min: float | None = None
    """Smallest cosine similarity of a row to its reference."""

    def __str__(self) -> str:
        known = {key: value for key, value in asdict(self).items() if key != "agrees" and value is not None}
        known["top1_samples"] = f"{known.pop('top1_samples')} of {known.pop('samples')}"
        return ", ".join(f"{key} {value if isinstance(value, str) else f'{value:.3g}'}" for key, value in known.items())


def compare_outputs(
    output: npt.NDArray[np.generic], reference: npt.NDArray[np.generic], agreement: Agreement
) -> Discrepancy:
    """Compare two arrays of the same shape and dtype, rows along dimension 0; NaN agrees with nothing."""
    floating = bool(np.issubdtype(reference.dtype, np.floating))
    return discrepancy(compare_rows(output, reference, agreement), agreement, floating=floating)


def compare_rows(output: npt.NDArray[np.generic], reference: npt.NDArray[np.generic], agreement: Agreement) -> Rows:
    """Compare arrays row by row: [rows, 5], unknown figures are NaN."""
    found = np.full((len(reference), 5), np.nan)
    if not np.issubdtype(reference.dtype, np.floating):
        equal = output.reshape(len(output), -1) == reference.reshape(len(reference), -1)
        found[:, MATCH], found[:, TOP1] = equal.mean(axis=1), equal[:, 0]
        return found
    ours = output.astype(np.float64).reshape(len(output), -1)
    theirs = reference.astype(np.float64).reshape(len(reference), -1)
    error, size = np.abs(ours - theirs), np.abs(theirs)
    within = error <= agreement.atol + agreement.rtol * size
    largest = size.max(axis=1, keepdims=True)
    found[:, MATCH] = within.mean(axis=1)
    found[:, TOP1] = ours.argmax(axis=1) == theirs.argmax(axis=1)
    found[:, MAX_ABS] = -error.max(axis=1)
    found[:, MAX_REL] = -(error / np.where(largest > 0, largest, 1)).max(axis=1)
    found[:, COSINE] = _cosines(ours, theirs, within.all(axis=1))
    return found


def worst_of_each(rows: Rows, samples: npt.NDArray[np.int64]) -> Rows:
    """Return the worst figures of each sample, in the order of their numbers: a sample counts once."""
    order = np.argsort(samples, kind="stable")
    starts = np.unique(samples[order], return_index=True)[1]
    worst: Rows = np.minimum.reduceat(rows[order], starts, axis=0)
    return worst


def discrepancy(rows: Rows, agreement: Agreement, *, floating: bool) -> Discrepancy:
    """Combine the figures of an output's rows, each of which belongs to another sample."""
    if not floating:
        agrees = rows[:, MATCH].mean() >= agreement.min_match
    elif agreement.min_cosine is None:
        agrees = rows[:, MATCH].min() == 1
    else:
        agrees = rows[:, COSINE].min() >= agreement.min_cosine
    max_abs, max_rel, cosine_min = (
        float(worst) if np.isfinite(worst := rows[:, column].min()) else None for column in (MAX_ABS, MAX_REL, COSINE)
    )
    return Discrepancy(
        agrees=bool(agrees),
        match_share=float(rows[:, MATCH].mean()),
        samples=len(rows),
        top1_samples=int(rows[:, TOP1].sum()),
        max_abs=None if max_abs is None else abs(max_abs),
        max_rel=None if max_rel is None else abs(max_rel),
        cosine_min=cosine_min,
    )


def _cosines(ours: Rows, theirs: Rows, close: npt.NDArray[np.bool_]) -> Rows:
    """Return the rows' cosine similarities, NaN if not finite; a row of zeros has 1 if both are close, else 0."""
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    with np.errstate(invalid="ignore"):
        cosines: Rows = (ours * theirs).sum(axis=1) / np.where(lengths == 0, 1, lengths)
    return np.where(lengths == 0, close, cosines)
