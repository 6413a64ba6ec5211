"""Figures of scored examples, as documents hold them."""

import math
from collections.abc import Sequence

from servemark.quality.interval import intervals
from servemark.quality.journal import NOT_A_NUMBER, Scored
from servemark.quality.metric import Metric
from servemark.quality.scoring import set_digest
from servemark.repository.entry import Entry
from servemark.results.schema.details import QualityData, QualityFigure, QualityOutcome, QualityScore
from servemark.workload import Quality, Workload

TRAINED, RANDOM, UNKNOWN = "trained", "random", "unknown"
_UNJUDGED = {
    RANDOM: "the weights are random",
    UNKNOWN: "the repository does not hold the model that is served: whether its weights are trained is not known",
}


def score(
    metric: Metric,
    asked: Quality,
    scored: Sequence[Scored],
    *,
    weights: str,
    source: str,
    size: int,
    samples: int | None,
    seed: int,
    continued: int,
) -> QualityScore:
    """Return the figures of scored examples (at least one), with their intervals, compared with the target."""
    ordered = sorted(scored, key=lambda entry: entry.example)  # the figures must not depend on the order of the answers
    rows = [entry.row for entry in ordered if entry.row is not None]
    values = metric.values(rows) if rows else (math.nan,) * len(metric.figures)
    figures: list[QualityFigure] = [
        {
            "name": name,
            "value": float(value) if math.isfinite(value) else None,
            "ci95": interval.bounds,
            "ci95_method": interval.method,
        }
        for name, value, interval in zip(metric.figures, values, intervals(metric, rows, seed), strict=True)
    ]
    wanted = size if samples is None else min(samples, size)
    data: QualityData = {
        "source": source,
        "size": size,
        "samples": wanted,
        "subset_seed": seed if wanted < size else None,
        "scored": len(scored),
        "continued": continued,
        "sha256": set_digest(scored),
    }
    failed = [entry for entry in scored if entry.error is not None]
    left_out = sum(entry.row is None for entry in failed)
    outcome, reason = _outcome(metric, asked, figures[0]["value"], weights, data, left_out)
    found: QualityScore = {
        "metric": metric.figures[0],
        "higher_is_better": metric.higher_is_better,
        "figures": figures,
        "target": asked.target,
        "protocol": asked.protocol,
        "outcome": outcome,
        "weights": weights,
        "wrong": sum(entry.row is not None for entry in failed),
        "left_out": left_out,
        "not_numbers": sum(entry.error == NOT_A_NUMBER for entry in failed),
        "data": data,
    }
    if reason:
        found["reason"] = reason
    return found


def _outcome(
    metric: Metric, asked: Quality, value: float | None, weights: str, data: QualityData, left_out: int
) -> tuple[QualityOutcome, str | None]:
    if asked.target is None:
        return "not judged", "no target is published"
    if weights in _UNJUDGED:
        return "not judged", _UNJUDGED[weights]
    if value is None:
        return "not judged", "these examples do not tell the metric"
    if data["scored"] < data["size"]:
        return "not judged", f"{data['scored']:,} of {data['size']:,} examples were scored; the target is of all"
    if left_out:
        return "not judged", f"{left_out:,} of {data['size']:,} examples are left out; the target is of all"
    return ("met" if (value >= asked.target) == metric.higher_is_better or value == asked.target else "missed"), None


def weights_of(workload: Workload, entry: Entry) -> str:
    """Return the origin of the served weights (trained, random or unknown) by the repository. Raises ArtifactError.

    The user's own weights count as trained, whether they came as weights or as a whole model file.
    """
    manifest = entry.read_manifest()
    if manifest is None:
        return UNKNOWN
    return TRAINED if workload.trained or workload.source or manifest.get("weights") else RANDOM
