"""Agreement of the answers to golden requests with eager PyTorch in fp32, and the task's quality metric.

The worst answer of a sample counts.
"""

from servemark.figures.evidence import Evidence
from servemark.figures.figure import Better, Figure
from servemark.figures.value import COUNT, SHARE, Unit, Value


def _figure(name: str, unit: Unit, words: str, better: Better | None = None) -> Figure:
    def of(evidence: Evidence) -> Value | None:
        if name not in evidence.agreement:
            return None
        return Value(evidence.agreement[name], reason=evidence.agreement.get(f"{name}_reason"))

    return Figure(f"outputs.{name}", unit, words, of, better=better, detail=True)


FIGURES = (
    _figure("checked", COUNT, "Answers that were compared."),
    _figure("samples", COUNT, "Golden samples among them. Each counts once in what follows."),
    _figure("top1_samples", COUNT, "Samples with the same first choice."),
    _figure("top1_agreement", SHARE, "top1_samples / samples.", "higher"),
    _figure("max_abs_error", COUNT, "Largest absolute error of a floating-point output.", "lower"),
    _figure("max_rel_error", COUNT, "Largest relative error of a floating-point output.", "lower"),
    _figure("cosine_min", COUNT, "Smallest cosine of an output with the golden one.", "higher"),
    _figure(
        "spread_error_max",
        COUNT,
        "Longest error of a sample, as a share of how far the golden samples lie apart.",
        "lower",
    ),
    Figure(
        "quality.value",
        COUNT,
        "The task's quality metric, with `--quality`.",
        lambda evidence: evidence.quality,
        detail=True,
    ),
    Figure(
        "quality.target",
        COUNT,
        "The suite's target of the quality metric.",
        lambda evidence: evidence.quality_target,
        detail=True,
    ),
)
