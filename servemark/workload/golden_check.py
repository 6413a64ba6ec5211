"""Comparison of the answers to golden samples with eager PyTorch's, for exports and for runs under load."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from servemark.results.schema.details import OutputAgreement
from servemark.stats.unknown import explained, unknown
from servemark.workload.agreement import Agreement, Discrepancy, Rows, discrepancy, worst_of_each
from servemark.workload.spec import EAGER, Workload
from servemark.workload.tensor import Tensor


@explained
def unchecked(reason: str) -> OutputAgreement:
    """Return the figures if nothing could be compared."""
    return {
        "checked": 0,
        "samples": unknown(reason),
        "top1_samples": unknown(reason),
        "max_abs_error": unknown(reason),
        "max_rel_error": unknown(reason),
        "cosine_min": unknown(reason),
        "spread_error_max": unknown(reason),
        "top1_agreement": unknown(reason),
        "tolerance": unknown(reason),
        "weights": unknown(reason),
    }


@dataclass(frozen=True)
class GoldenCheck:
    """Sampled answers that were compared: their number, their golden samples, and the worst figures of each sample."""

    answers: int = 0
    samples: Sequence[int] = ()
    found: Mapping[str, list[list[float]]] = field(default_factory=dict)
    """Output -> the figures of `compare_rows` for each of the samples."""

    @classmethod
    def joined(cls, parts: Sequence["GoldenCheck"]) -> "GoldenCheck":
        """Join the comparisons of several processes, as if one had made them all."""
        counted = [part for part in parts if part.answers]
        if not counted:
            return cls()
        samples = np.concatenate([part.samples for part in counted])
        rows = {name: np.concatenate([part.found[name] for part in counted]) for name in counted[0].found}
        return cls.of(sum(part.answers for part in counted), samples, rows)

    @classmethod
    def of(cls, answers: int, samples: npt.NDArray[np.int64], rows: Mapping[str, Rows]) -> "GoldenCheck":
        """Keep the worst figures of each golden sample; `samples` has the sample of each row."""
        found = {name: worst_of_each(each, samples).tolist() for name, each in rows.items()}
        return cls(answers, np.unique(samples).tolist(), found)

    def discrepancies(self, outputs: Sequence[Tensor], limits: Agreement) -> dict[str, Discrepancy]:
        """Return the difference between each output and the golden one."""
        return {
            tensor.name: discrepancy(np.array(self.found[tensor.name]), limits, floating=tensor.dtype.kind == "f")
            for tensor in outputs
        }


@explained
def agreement_figures(
    checked: GoldenCheck, workload: Workload, precision: str, *, reference: str = EAGER
) -> tuple[OutputAgreement, str | None]:
    """Return the figures for result.json and, if an output lies outside the limits, a sentence that names it."""
    if not checked.answers:
        return unchecked("no golden request was answered"), None
    outputs = [tensor for tensor in workload.outputs if tensor.name in checked.found]
    limits = workload.agreement.at(precision)
    found = checked.discrepancies(outputs, limits)
    integers = [tensor.name for tensor in outputs if tensor.dtype.kind != "f"]
    floats = [found[tensor.name] for tensor in outputs if tensor.dtype.kind == "f"]
    # Where a model lists ids, they are its choice; its scores only say how sure it was.
    top1 = min(found[name].top1_samples for name in (integers or found))
    reason = "the server answered with NaN or infinity" if floats else "the workload has no floating-point output"
    figures: OutputAgreement = {
        "checked": checked.answers,
        "samples": len(checked.samples),
        "top1_samples": top1,
        "max_abs_error": _worst(max, [discrepancy.max_abs for discrepancy in floats], reason),
        "max_rel_error": _worst(max, [discrepancy.max_rel for discrepancy in floats], reason),
        "cosine_min": _worst(min, [discrepancy.cosine_min for discrepancy in floats], reason),
        "spread_error_max": _worst(max, [discrepancy.spread_error for discrepancy in floats], reason),
        "top1_agreement": top1 / len(checked.samples),
        "tolerance": limits.applied(floats=bool(floats), integers=bool(integers)),
    }
    if not workload.served:
        figures["weights"] = workload.weights
    wrong = next((name for name, discrepancy in found.items() if not discrepancy.agrees), None)
    mismatch = None if wrong is None else f"output {wrong!r} differs from {reference}'s: {found[wrong]}"
    return figures, mismatch


def _worst(choose: Callable[[list[float]], float], values: Sequence[float | None], reason: str) -> float | None:
    """Return the worst of all outputs, unknown if one of them is."""
    known = [value for value in values if value is not None]
    return choose(known) if known and len(known) == len(values) else unknown(reason)
