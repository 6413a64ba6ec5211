"""Output agreement: what the server answered to golden requests under load, against eager PyTorch's answers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.connection import Response
from loadgen.kserve import decode_outputs
from servemark.artifacts import Arrays, Entry, Golden
from servemark.errors import ArtifactError
from servemark.models import Agreement, Tensor

Sampled = Sequence[tuple[tuple[int, ...], Response]]
_KEYS = ("max_abs_error", "max_rel_error", "cosine_min", "top1_agreement")


def unchecked(reason: str) -> dict[str, Any]:
    """The figures where nothing could be compared."""
    return {"checked": 0, **dict.fromkeys(_KEYS), **{f"{key}_reason": reason for key in _KEYS}}


def require_fit(golden: Golden, entry: Entry, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Check that golden samples are the workload's, before a run depends on them. Raises ArtifactError."""
    for tensors, arrays in ((inputs, golden.inputs), (outputs, golden.outputs)):
        for tensor in tensors:
            array = arrays.get(tensor.name)
            if array is None or array.dtype != tensor.dtype or array.ndim != len(tensor.shape) + 1 or not len(array):
                raise ArtifactError(
                    f"{entry.golden} does not hold {tensor.name} {tensor.datatype}{list(tensor.shape)}",
                    fix=entry.export_command(force=True),
                )


def compare(
    sampled: Sampled, golden: Golden, outputs: Sequence[Tensor], limits: Agreement
) -> tuple[dict[str, Any], str | None]:
    """The figures for result.json and, where an output lies outside the limits, which one and how far."""
    if not sampled:
        return unchecked("no golden request was answered"), None
    rows = np.array([row for golden_rows, _ in sampled for row in golden_rows])
    decoded = [decode_outputs(response.head, response.body, outputs) for _, response in sampled]
    answers: Arrays = {t.name: np.concatenate([answer[t.name] for answer in decoded]) for t in outputs}
    references: Arrays = {t.name: golden.outputs[t.name][rows] for t in outputs}
    floats = [t.name for t in outputs if t.dtype.kind == "f"]
    integers = [t.name for t in outputs if t.dtype.kind != "f"]
    figures: dict[str, Any] = {"checked": len(sampled)}
    errors = [_float_errors(answers[name], references[name]) for name in floats]
    for index, key in enumerate(_KEYS[:3]):
        worst = min if key == "cosine_min" else max
        figures[key] = worst((error[index] for error in errors), default=None)
        if figures[key] is None:
            figures[f"{key}_reason"] = "the workload has no floating-point output"
        elif not all(math.isfinite(error[index]) for error in errors):
            # JSON holds neither; the result of a run that shows it must not be lost.
            figures[key], figures[f"{key}_reason"] = None, "the server answered with NaN or infinity"
    top1 = [_top1(answers[name], references[name]) for name in (integers or floats)]
    figures["top1_agreement"] = min(top1)
    mismatches = [_float_mismatch(name, answers[name], references[name], limits) for name in floats]
    mismatches += [_integer_mismatch(name, answers[name], references[name], limits) for name in integers]
    return figures, next((mismatch for mismatch in mismatches if mismatch), None)


def _float_errors(answer: npt.NDArray[Any], reference: npt.NDArray[Any]) -> tuple[float, float, float]:
    """Largest absolute error, largest error relative to the reference's scale, smallest cosine of a sample."""
    flat, expected = (a.reshape(len(a), -1).astype(np.float64) for a in (answer, reference))
    if not np.isfinite(flat).all():
        return math.nan, math.nan, math.nan
    absolute = float(np.abs(flat - expected).max())
    # Relative to the sample's largest value: an element near 0 would make any error look infinite.
    scale = np.abs(expected).max(axis=1, keepdims=True)
    relative = float((np.abs(flat - expected) / np.where(scale > 0, scale, 1)).max())
    norms = np.linalg.norm(flat, axis=1) * np.linalg.norm(expected, axis=1)
    cosine = np.where(norms > 0, (flat * expected).sum(axis=1) / np.where(norms > 0, norms, 1), 1.0)
    return absolute, relative, float(cosine.min())


def _top1(answer: npt.NDArray[Any], reference: npt.NDArray[Any]) -> float:
    """Share of samples with the same first choice: the largest of the scores, or the first of a list of ids."""
    flat, expected = (a.reshape(len(a), -1) for a in (answer, reference))
    if answer.dtype.kind == "f":
        return float((flat.argmax(axis=1) == expected.argmax(axis=1)).mean())
    return float((flat[:, 0] == expected[:, 0]).mean())


def _float_mismatch(name: str, answer: npt.NDArray[Any], reference: npt.NDArray[Any], limits: Agreement) -> str | None:
    if not np.isfinite(answer).all():
        return f"output {name!r} holds NaN or infinity"
    error = np.abs(answer.astype(np.float64) - reference)
    if bool((error <= limits.atol + limits.rtol * np.abs(reference)).all()):
        return None
    return f"output {name!r} is off by up to {float(error.max()):.3g}"


def _integer_mismatch(
    name: str, answer: npt.NDArray[Any], reference: npt.NDArray[Any], limits: Agreement
) -> str | None:
    share = float((answer == reference).mean())
    return None if share >= limits.min_match else f"only {share:.1%} of output {name!r} equals the reference"
