"""Quality beside speed: the score of each engine's answers, its share of fp32's score, and their agreement."""

from collections.abc import Callable, Sequence

from servemark.figures.registry import count_of, value_of, why_unknown
from servemark.results.schema.comparison import ComparisonRow, RowQuality
from servemark.results.schema.details import OutputAgreement, QualityScore
from servemark.results.schema.run import Result

FULL = "fp32"
ERROR_RATES = ("WER",)
"""Metrics whose share is that of 1 - rate, as in MLPerf (its submission checker asks RNN-T for 99 % of 100 - 7.452)."""


def quality_of(found: Sequence[Result]) -> RowQuality | None:
    """Return the score of the round that scored the most examples; None if no round scored any.

    Rounds send the same examples, so their scores are not independent.
    """
    scores = [score for result in found if (score := result["details"]["quality"].get("score"))]
    if not scores:
        return None
    most: QualityScore = max(scores, key=lambda score: score["data"]["scored"])
    first = most["figures"][0]
    return {
        "metric": most["metric"],
        "value": first["value"],
        "ci95": first["ci95"],
        "higher_is_better": most["higher_is_better"],
        "examples": most["data"]["scored"],
        "data_sha256": most["data"]["sha256"],
        "weights": most["weights"],
        "target": most["target"],
        "outcome": most["outcome"],
        "of_fp32": None,
        "against": None,
    }


def agreement_of(found: Sequence[Result]) -> OutputAgreement:
    """Combine the outputs of all rounds: the largest errors, the smallest cosine, the fewest equal first choices.

    Each round checks the same golden samples. A short one may not come to all of them: its count says less.
    """
    checked = [result for result in found if count_of(result, "outputs.checked")]
    if not checked:
        return {"checked": 0, "reason": why_unknown(found[0], "outputs.max_abs_error")}
    least = min(
        checked,
        key=lambda each: (-count_of(each, "outputs.samples"), value_of(each, "outputs.top1_agreement") or 0.0),
    )
    return {
        "checked": sum(count_of(each, "outputs.checked") for each in checked),
        "samples": count_of(least, "outputs.samples"),
        "top1_samples": count_of(least, "outputs.top1_samples"),
        "max_abs_error": _worst(max, checked, "outputs.max_abs_error"),
        "max_rel_error": _worst(max, checked, "outputs.max_rel_error"),
        "cosine_min": _worst(min, checked, "outputs.cosine_min"),
        "spread_error_max": _worst(max, checked, "outputs.spread_error_max"),
        "top1_agreement": value_of(least, "outputs.top1_agreement"),
        "tolerance": least["details"]["outputs"].get("tolerance"),
        "weights": least["details"]["outputs"].get("weights"),
    }


def _worst(choose: Callable[[list[float]], float], results: Sequence[Result], tag: str) -> float | None:
    """Return the worst of a figure, None where one result does not know it."""
    values = [value_of(result, tag) for result in results]
    known = [value for value in values if value is not None]
    return choose(known) if len(known) == len(values) else None


def against_full(rows: Sequence[ComparisonRow]) -> None:
    """Complete each row by its share of its own engine's fp32 score, else of the first engine's that has one."""
    whole = [row for row in rows if row["precision"] == FULL and (found := row.get("quality")) and found["value"]]
    for row in rows:
        own = row.get("quality")
        if own is None or own["value"] is None or not whole:
            continue
        reference = next((each for each in whole if each["engine"] == row["engine"]), whole[0])
        better = reference.get("quality")
        assert better is not None
        if row is reference or own["data_sha256"] != better["data_sha256"]:
            continue  # scores of different examples cannot be compared
        assert better["value"] is not None
        share = _share(own["value"], better["value"], own)
        if share is not None:
            own["of_fp32"], own["against"] = share, reference["label"]


def _share(value: float, full: float, of: RowQuality) -> float | None:
    """Return the share of fp32's quality that is kept; None if the divisor is 0."""
    if of["metric"] in ERROR_RATES:
        value, full = 1 - value, 1 - full
    elif not of["higher_is_better"]:
        value, full = full, value
    return value / full if full > 0 else None
