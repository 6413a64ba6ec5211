"""Differences between an engine's outputs and eager PyTorch's: the export's parity check and the check under load.

An output may be a probability of 1e-6 or a coordinate of 1,000. An error says something only beside the differences
that the model makes between samples.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from servemark.results.schema.details import Tolerance

Figures = npt.NDArray[np.float64]

FEW_SAMPLES = 8
"""With fewer samples two values may be close by chance, and an element's spread is too small."""
SHARE_OF_ALL = 0.1
"""With few samples an element's spread counts as at least this share of the whole output's."""
CROSS_SHARE = 1e-3
"""Of any element at least this share of the whole output's spread counts: beside a probability of 1, one of 1e-9 is 0.

Times `spread_rtol` it is 5e-6, forty times the rounding of one float32.
"""


@dataclass(frozen=True)
class OutputScale:
    """Centre and spread of an output's elements over the golden samples; NaN and infinity do not count."""

    centre: Figures
    """Median of each element over the samples: [elements]."""
    spread: Figures
    """Median distance of each element from its centre: [elements]. One outlier does not widen it."""
    whole: float
    """Spread of the whole output: of its samples' root mean squares the median."""
    level: float
    """Size of the whole output, spread and common offset: of its samples' root mean squares the median."""

    @classmethod
    def of(cls, reference: npt.NDArray[np.generic]) -> "OutputScale":
        """Measure the golden answers of one floating-point output, a row for each sample."""
        values = flat(reference)
        if not values.size:
            empty = np.zeros(values.shape[1])
            return cls(empty, empty, 0.0, 0.0)
        values = np.where(np.isfinite(values), values, np.nan)
        centre = _median(values)
        distance = np.abs(values - centre)
        whole = _typical(distance)
        if whole == 0:  # one sample, or a constant: its elements differ from one another, or from 0
            whole = _typical(values - np.nan_to_num(_median(values.T))[:, None]) or _typical(values)
        spread = _median(distance)
        if len(values) < FEW_SAMPLES:
            spread = np.maximum(spread, SHARE_OF_ALL * whole)
        return cls(centre, np.maximum(spread, CROSS_SHARE * whole), whole, _typical(values))

    def sizes(self, reference: Figures) -> Figures:
        """Return what each element's error is measured against: its spread, or its own distance from the centre."""
        sizes: Figures = np.maximum(self.spread, np.nan_to_num(np.abs(reference - self.centre), posinf=0))
        return sizes

    def lengths(self, reference: Figures) -> Figures:
        """Return what the length of each row's error is measured against: [rows]."""
        distance = np.nan_to_num(np.abs(reference - self.centre), posinf=0)
        least = self.whole * np.sqrt(reference.shape[1])
        lengths: Figures = np.maximum(np.sqrt((distance**2).sum(axis=1)), least)
        return lengths


def flat(array: npt.NDArray[np.generic]) -> Figures:
    """Return the rows' elements in double precision: [rows, elements]."""
    return array.astype(np.float64).reshape(len(array), -1)


def _median(values: Figures) -> Figures:
    """Return the median of each column's known values, 0 where there are none."""
    known = ~np.isnan(values).all(axis=0)
    found = np.zeros(values.shape[1])
    found[known] = np.nanmedian(values[:, known], axis=0)
    return found


def _typical(distance: Figures) -> float:
    """Return the median over the rows of their root mean squares."""
    squares = np.nanmean(np.where(np.isnan(distance).all(axis=1)[:, None], 0, distance) ** 2, axis=1)
    return float(np.median(np.sqrt(squares)))


Rows = npt.NDArray[np.float64]
"""Columns of figures for each row of an output, of which less is worse: errors are negative numbers."""
MATCH, TOP1, MAX_ABS, MAX_REL, COSINE, SPREAD_ERROR, CHOICE = range(7)
COLUMNS = 7


@dataclass(frozen=True)
class Agreement:
    """Limits for the difference between an engine's outputs and eager PyTorch's.

    An error of a floating-point element may be `spread_rtol` of its size, `rtol` of its value more, and what the whole
    output's level is rounded to. The size is how far the golden samples differ in this element (`OutputScale`). Of the
    integer elements (ids, counts), and of the first ones of the samples, at least `min_match` must be equal: a tie
    broken the other way is correct.

    If `min_cosine` is given, each row of floating-point elements must be that similar to its reference, and single
    elements may lie anywhere. Against a large common offset the length of its error is also compared with the spread's,
    and its first choice may change only between elements nearer than such errors.
    """

    spread_rtol: float = 5e-3
    rtol: float = 1e-5
    min_match: float = 1.0
    min_cosine: float | None = None

    def at(self, precision: str) -> "Agreement":
        """Return the limits for an artifact of this precision: the workload's own limits hold for fp32 alone."""
        floor = REDUCED.get(precision)
        return replace(self, min_cosine=floor[0], min_match=min(floor[1], self.min_match)) if floor else self

    @property
    def max_spread_error(self) -> float | None:
        """Longest error as a share of the spread: that of two vectors of one length with the smallest cosine."""
        return None if self.min_cosine is None else round(math.sqrt(2 * (1 - self.min_cosine)), 3)

    def applied(self, *, floats: bool, integers: bool) -> Tolerance:
        """Return the limits that apply to outputs of these kinds."""
        limits: Tolerance = {}
        if floats and self.min_cosine is None:
            limits = {"spread_rtol": self.spread_rtol, "rtol": self.rtol}
        elif floats and self.min_cosine is not None and self.max_spread_error is not None:
            limits = {"min_cosine": self.min_cosine, "max_spread_error": self.max_spread_error}
        if integers:
            limits["min_match"] = self.min_match
        return limits


SAFETY = 10
"""Times that an engine may err as far as roundings of the inputs move an answer, where that was measured.

Over 64 samples of four trained models (three that read text, one captchas) TensorFlow, OpenVINO, and ONNX Runtime
without its optimiser, erred at most 5 times as far wherever they erred by more than the other limits allow.
"""
SMALLEST = float(np.finfo(np.float32).smallest_normal)
"""Some engines flush smaller numbers to 0."""
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

    The errors are None for integers (ids, counts), where they mean nothing, and if NaN or infinity stands where the
    reference has another value.
    """

    agrees: bool
    match_share: float
    """Share of elements within the tolerances; for integers, of equal elements."""
    samples: int
    top1_samples: int
    """Samples with the same first choice: the largest element or, of integers, the first in the list."""
    choices_changed: int = 0
    """Samples with another first choice, of which the reference's gap to the old one is more than the limits allow."""
    max_abs: float | None = None
    max_rel: float | None = None
    """Largest error relative to its row's largest element: relative to itself, an element near 0 would hide all."""
    cosine_min: float | None = None
    """Smallest cosine similarity of a row to its reference."""
    spread_error: float | None = None
    """Longest error of a row, as a share of how far the golden samples lie apart."""

    faults: str = ""
    """Words for each limit that it exceeds."""

    def __str__(self) -> str:
        return self.faults


def compare_outputs(
    output: npt.NDArray[np.generic],
    reference: npt.NDArray[np.generic],
    agreement: Agreement,
    scale: OutputScale | None = None,
    moves: npt.NDArray[np.generic] | None = None,
) -> Discrepancy:
    """Compare two arrays of the same shape and dtype, rows along dimension 0; None: these rows are all samples."""
    scale = scale or scale_of(reference)
    return discrepancy(compare_rows(output, reference, agreement, scale, moves), agreement, floating=scale is not None)


def scale_of(reference: npt.NDArray[np.generic]) -> OutputScale | None:
    """Return the scale of an output's golden answers; None of integers and strings."""
    return OutputScale.of(reference) if np.issubdtype(reference.dtype, np.floating) else None


def compare_rows(
    output: npt.NDArray[np.generic],
    reference: npt.NDArray[np.generic],
    agreement: Agreement,
    scale: OutputScale | None,
    moves: npt.NDArray[np.generic] | None = None,
) -> Rows:
    """Compare arrays row by row: [rows, COLUMNS], unknown figures are NaN.

    `scale` is that of all golden answers, of which these rows may be a part; `moves` is how far roundings move these
    rows, where that was measured. Equal NaN, and infinities of one sign,
    agree. Everything else is measured over the other elements.
    """
    found = np.full((len(reference), COLUMNS), np.nan)
    if scale is None:
        equal = output.reshape(len(output), -1) == reference.reshape(len(reference), -1)
        # Of no element none differs.
        found[:, MATCH] = equal.mean(axis=1) if equal.size else 1
        found[:, TOP1] = found[:, CHOICE] = equal[:, 0] if equal.size else 1
        return found
    ours, theirs = flat(output), flat(reference)
    if not theirs.size:
        found[:, [MATCH, TOP1, CHOICE, COSINE]], found[:, [MAX_ABS, MAX_REL, SPREAD_ERROR]] = 1, 0
        return found
    same = ~np.isfinite(theirs) & ((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)))
    order_ours, order_theirs = (np.where(np.isnan(each), -np.inf, each) for each in (ours, theirs))
    ours, theirs = np.where(same, 0, ours), np.where(same, 0, theirs)
    with np.errstate(invalid="ignore"):
        error, size = np.abs(ours - theirs), np.abs(theirs)
        limit = element_limits(theirs, agreement, scale, resolution_of(reference))
        if moves is not None:
            limit += SAFETY * flat(moves)
        limit = np.where(same, 0, limit)
        within = (error <= limit) & np.isfinite(size)
        largest = size.max(axis=1, keepdims=True)
        lengths = scale.lengths(np.where(same, scale.centre, theirs))
        length = np.linalg.norm(error, axis=1)
        found[:, MATCH] = within.mean(axis=1)
        found[:, MAX_ABS] = -error.max(axis=1)
        found[:, MAX_REL] = -(error / np.where(largest > 0, largest, 1)).max(axis=1)
        found[:, COSINE] = _cosines(ours, theirs, within.all(axis=1))
        # Without a spread, all that the limits leave of an error is rounding.
        found[:, SPREAD_ERROR] = -np.where(within.all(axis=1), 0, np.inf)
        known = lengths > 0
        found[known, SPREAD_ERROR] = -(length[known] / lengths[known])
        if agreement.max_spread_error is not None:
            limit = np.broadcast_to(
                (agreement.max_spread_error * lengths / np.sqrt(size.shape[1]))[:, None], size.shape
            )
        row, ours_first, theirs_first = np.arange(len(theirs)), order_ours.argmax(axis=1), order_theirs.argmax(axis=1)
        gap = order_theirs[row, theirs_first] - order_theirs[row, ours_first]
        found[:, TOP1] = ours_first == theirs_first
        found[:, CHOICE] = (ours_first == theirs_first) | (gap <= limit[row, ours_first] + limit[row, theirs_first])
    return found


def element_limits(reference: Rows, agreement: Agreement, scale: OutputScale, resolution: float) -> Rows:
    """Return how far each element may lie from its reference, which has this resolution."""
    limits: Rows = agreement.spread_rtol * scale.sizes(reference)
    limits += max(agreement.rtol, resolution) * np.abs(reference)
    # An element near 0 is a sum of larger ones: beside an output of 1 it carries the rounding of 1.
    limits += resolution * scale.level + SMALLEST
    return limits


def worst_of_each(rows: Rows, samples: npt.NDArray[np.int64]) -> Rows:
    """Return the worst figures of each sample, in the order of their numbers: a sample counts once."""
    order = np.argsort(samples, kind="stable")
    starts = np.unique(samples[order], return_index=True)[1]
    worst: Rows = np.minimum.reduceat(rows[order], starts, axis=0)
    return worst


def discrepancy(rows: Rows, agreement: Agreement, *, floating: bool) -> Discrepancy:
    """Combine the figures of an output's rows, each of which belongs to another sample."""
    changed = int((rows[:, CHOICE] == 0).sum()) if floating else 0
    max_abs, max_rel, cosine_min, spread_error = (
        float(worst) if np.isfinite(worst := rows[:, column].min()) else None
        for column in (MAX_ABS, MAX_REL, COSINE, SPREAD_ERROR)
    )
    faults = ", ".join(_floating_faults(rows, agreement, changed) if floating else _integer_faults(rows, agreement))
    return Discrepancy(
        agrees=not faults,
        faults=faults,
        match_share=float(rows[:, MATCH].mean()),
        samples=len(rows),
        top1_samples=int(rows[:, TOP1].sum()),
        choices_changed=changed,
        max_abs=None if max_abs is None else abs(max_abs),
        max_rel=None if max_rel is None else abs(max_rel),
        cosine_min=cosine_min,
        spread_error=None if spread_error is None else abs(spread_error),
    )


def _integer_faults(rows: Rows, agreement: Agreement) -> Iterator[str]:
    least = f"(at least {100 * agreement.min_match:g} %)"
    if (equal := rows[:, MATCH].mean()) < agreement.min_match:
        yield f"{100 * equal:.3g} % of its elements are equal {least}"
    if (equal := rows[:, CHOICE].mean()) < agreement.min_match:
        yield f"the first element is equal in {100 * equal:.3g} % of the samples {least}"


def _floating_faults(rows: Rows, agreement: Agreement, changed: int) -> Iterator[str]:
    if agreement.min_cosine is None or agreement.max_spread_error is None:
        if (within := rows[:, MATCH].mean()) < 1:
            limit = f"{100 * agreement.spread_rtol:g} % of its spread over the samples"
            worst = f"by up to {-rows[:, MAX_ABS].min():.3g}, where {limit} may be"
            if not np.isfinite(rows[:, MAX_ABS]).all():
                worst = "some of them not finite, or another infinity"
            yield f"{100 * (1 - within):.2g} % of its elements are wrong, {worst}"
    else:
        # A cosine that is not a number is no similarity.
        if not (cosine := rows[:, COSINE].min()) >= agreement.min_cosine:
            yield f"cosine {cosine:.3g} (at least {agreement.min_cosine:g})"
        if not (error := -rows[:, SPREAD_ERROR].min()) <= agreement.max_spread_error:
            yield f"error {error:.2g} of the spread over the samples (at most {agreement.max_spread_error:g})"
    if changed:
        yield f"another first choice in {changed} of {len(rows)} samples, which no near tie explains"


def resolution_of(reference: npt.NDArray[np.generic]) -> float:
    """Return the rounding of an output's own datatype, twice: FP16 answers lie on a coarse grid."""
    return 2 * float(np.finfo(reference.dtype.name).eps)


def _cosines(ours: Rows, theirs: Rows, close: npt.NDArray[np.bool_]) -> Rows:
    """Return the rows' cosine similarities, NaN if not finite; a row of zeros has 1 if both are close, else 0."""
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    with np.errstate(invalid="ignore"):
        cosines: Rows = (ours * theirs).sum(axis=1) / np.where(lengths == 0, 1, lengths)
    return np.where(lengths == 0, close, cosines)
