"""Output agreement: what the server answered to golden requests under load, against eager PyTorch's answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from loadgen.sut.channel import Answer
from servemark.errors import ArtifactError
from servemark.repository.entry import Entry, Golden
from servemark.results.schema.header import unknown
from servemark.results.schema.run import OutputAgreement
from servemark.workload import Tensor
from servemark.workload.agreement import Agreement, Discrepancy, compare_outputs, merge_discrepancies

Sampled = Sequence[tuple[tuple[int, ...], Answer]]
_KEYS = ("max_abs_error", "max_rel_error", "cosine_min", "top1_agreement")


def unchecked(reason: str) -> OutputAgreement:
    """The figures where nothing could be compared."""
    return cast(OutputAgreement, {"checked": 0, **unknown(_KEYS, reason)})


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


@dataclass(frozen=True)
class Checked:
    """Sampled answers that were compared: how many, of how many rows, and how far each output lies from the golden."""

    answers: int = 0
    rows: int = 0
    found: Mapping[str, Discrepancy] = field(default_factory=dict)

    @classmethod
    def joined(cls, parts: Sequence["Checked"], outputs: Sequence[Tensor], limits: Agreement) -> "Checked":
        """What several processes compared, as if one had."""
        counted = [part for part in parts if part.answers]
        found = {
            tensor.name: merge_discrepancies(
                [(part.rows, part.found[tensor.name]) for part in counted], limits, floating=tensor.dtype.kind == "f"
            )
            for tensor in outputs
            if counted
        }
        return cls(sum(part.answers for part in counted), sum(part.rows for part in counted), found)


def check(sampled: Sampled, golden: Golden, outputs: Sequence[Tensor], limits: Agreement) -> Checked:
    """Compare sampled answers with the golden outputs."""
    if not sampled:
        return Checked()
    rows = np.array([row for golden_rows, _ in sampled for row in golden_rows])
    decoded = [answer.arrays(outputs) for _, answer in sampled]
    found = {
        tensor.name: compare_outputs(
            np.concatenate([arrays[tensor.name] for arrays in decoded]), golden.outputs[tensor.name][rows], limits
        )
        for tensor in outputs
    }
    return Checked(len(sampled), len(rows), found)


def agreement_figures(
    sampled: Sampled, golden: Golden, outputs: Sequence[Tensor], limits: Agreement
) -> tuple[OutputAgreement, str | None]:
    """Compare sampled answers and make the figures: `check`, then `figures_of`."""
    return figures_of(check(sampled, golden, outputs, limits), outputs)


def figures_of(checked: Checked, outputs: Sequence[Tensor]) -> tuple[OutputAgreement, str | None]:
    """The figures for result.json and, where an output lies outside the limits, which one and how far."""
    if not checked.answers:
        return unchecked("no golden request was answered"), None
    found = checked.found
    integers = [tensor.name for tensor in outputs if tensor.dtype.kind != "f"]
    floats = [found[tensor.name] for tensor in outputs if tensor.dtype.kind == "f"]
    figures: dict[str, Any] = {
        "checked": checked.answers,
        "max_abs_error": _worst(max, [discrepancy.max_abs for discrepancy in floats]),
        "max_rel_error": _worst(max, [discrepancy.max_rel for discrepancy in floats]),
        "cosine_min": _worst(min, [discrepancy.cosine_min for discrepancy in floats]),
        # Where a model lists ids, they are its choice; its scores only say how sure it was.
        "top1_agreement": min(found[name].top1_share for name in (integers or found)),
    }
    reason = "the server answered with NaN or infinity" if floats else "the workload has no floating-point output"
    figures |= {f"{key}_reason": reason for key in _KEYS if figures[key] is None}
    wrong = next((name for name, discrepancy in found.items() if not discrepancy.agrees), None)
    return cast(
        OutputAgreement, figures
    ), None if wrong is None else f"output {wrong!r} differs from eager PyTorch's: {found[wrong]}"


def _worst(choose: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
    """The worst of all outputs, None where one of them is not known."""
    known = [value for value in values if value is not None]
    return choose(known) if known and len(known) == len(values) else None
