"""Figures of scored examples, as documents hold them, with their confidence intervals."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from servemark.quality.metrics import Floats, Means, Metric, Row, Summed
from servemark.quality.scoring import NOT_A_NUMBER, Scored, set_digest
from servemark.repository.entry import Entry
from servemark.results.schema.details import QualityData, QualityFigure, QualityOutcome, QualityScore
from servemark.stats.ratios import MINIMUM_PAIRS, expanded, share_interval
from servemark.workload import Quality, Workload

RESAMPLES, COSTLY_RESAMPLES = 1_000, 100
"""Number of bootstrap samples: for sums, and for figures that match or sort all examples of each sample."""
AT_ONCE = 4_000_000
"""Maximum number of examples that are summed in one step, which bounds the memory."""
Method = Literal["wilson", "bootstrap"]


class Interval(NamedTuple):
    """Bounds of a 95 % interval and the method that found them; both None if there is no interval."""

    bounds: list[float] | None = None
    method: Method | None = None


def intervals(metric: Metric, rows: Sequence[Row], seed: int) -> list[Interval]:
    """Return each figure's confidence interval: Wilson's for a share, else a bootstrap over the examples.

    None for fewer than 5 examples or a bootstrap whose samples are all alike.

    A figure that is the share of examples with score 1, while all others have 0, gets Wilson's interval.
    """
    if len(rows) < MINIMUM_PAIRS:
        return [Interval()] * len(metric.figures)
    shares = _shares(metric, rows)
    if all(shares):  # so that nothing is drawn
        return [_wilson(share, len(rows)) for share in shares if share]
    rng = np.random.default_rng(seed)
    drawn = np.array(_of_sums(metric, rows, rng) if isinstance(metric, Summed) else _of_rows(metric, rows, rng)).T
    return [
        _wilson(share, len(rows)) if share else _quantiles(values, len(rows))
        for share, values in zip(shares, drawn, strict=True)
    ]


def _shares(metric: Metric, rows: Sequence[Row]) -> list[list[float] | None]:
    """Return the scores of each figure that is a share, None for the others."""
    if not isinstance(metric, Means) or not metric.shares:
        return [None] * len(metric.figures)
    columns = np.asarray(rows, np.float64)[:, :-1].T.tolist()
    return [column if {0.0, 1.0} >= set(column) else None for column in columns]


def _wilson(scores: Sequence[float], count: int) -> Interval:
    return Interval(list(share_interval(round(sum(scores)), count)), "wilson")


def _quantiles(drawn: Floats, count: int) -> Interval:
    known = drawn[np.isfinite(drawn)]
    if not len(known):
        return Interval()
    low, high = (float(bound) for bound in np.quantile(known, expanded(count)))
    return Interval([low, high], "bootstrap") if low < high else Interval()


def _of_sums(metric: Summed, rows: Sequence[Row], rng: np.random.Generator) -> list[tuple[float, ...]]:
    """Draw the bootstrap samples and sum each sample's rows."""
    table = np.asarray(rows, np.float64)
    count = len(table)
    step = max(AT_ONCE // count, 1)
    drawn = []
    for start in range(0, RESAMPLES, step):
        times = rng.multinomial(count, np.full(count, 1 / count), min(step, RESAMPLES - start))
        drawn += [metric.combine(sums) for sums in times @ table]
    return drawn


def _of_rows(metric: Metric, rows: Sequence[Row], rng: np.random.Generator) -> list[tuple[float, ...]]:
    return [
        metric.values([rows[index] for index in rng.integers(0, len(rows), len(rows))]) for _ in range(COSTLY_RESAMPLES)
    ]


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
