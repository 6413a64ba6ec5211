"""What a run shows with confidence of its tail: MLPerf's early-stopping criterion for each percentile and the SLO."""

import math
from typing import Any, cast

from servemark.results.schema.run import EarlyStopping, Objective
from servemark.stats.histogram import Histogram, Percentiles
from servemark.stats.percentiles import (
    EARLY_STOPPING_CONFIDENCE,
    PERCENTILES,
    over_allowed,
    percentile_key,
    requests_to_show,
)
from servemark.workload import Slo

_ROUNDS = 50
"""Steps towards the number of requests that would show an objective; where they do not end, no number would."""


def early_stopping(latency: Histogram, failed: int, slo: Slo | None) -> EarlyStopping:
    """The bound in ms that each percentile keeps with 99 % confidence, and whether the objective is one.

    A failed request lies beyond every bound. A percentile that has too few requests is None, with the reason.
    """
    requests = latency.count + failed
    bounds: dict[str, Any] = {}
    for percentile in PERCENTILES:
        key, over = percentile_key(percentile), over_allowed(percentile, requests)
        if over is None:
            bounds[key] = None
            bounds[f"{key}_reason"] = f"needs {requests_to_show(percentile, 0):,} requests, has {requests:,}"
        elif over < failed:
            bounds[key] = None
            bounds[f"{key}_reason"] = f"{failed:,} requests failed, {over:,} may lie beyond any bound"
        else:
            bounds[key] = latency.at_rank(latency.count - over + failed)
    return {
        "confidence": EARLY_STOPPING_CONFIDENCE,
        "requests": requests,
        "bounds_ms": cast(Percentiles, bounds),
        "slo": _objective(latency, failed, slo),
    }


def _objective(latency: Histogram, failed: int, slo: Slo | None) -> Objective | None:
    if slo is None:
        return None
    over, requests = latency.count_above(slo.limit_ms) + failed, latency.count + failed
    holds = requests >= requests_to_show(slo.percentile, over)
    needed = requests if holds else _needed(slo.percentile, over, requests)
    return {
        "percentile": slo.percentile,
        "limit_ms": slo.limit_ms,
        "requests": requests,
        "over": over,
        "holds": holds,
        "more_requests": None if needed is None else needed - requests,
    }


def _needed(percentile: float, over: int, requests: int) -> int | None:
    """How many requests would show it if as large a share of them were over the limit; None: no number would."""
    share = over / requests if requests else 0.0
    if share >= 1 - percentile / 100:
        return None
    needed = requests_to_show(percentile, over)
    for _ in range(_ROUNDS):
        again = requests_to_show(percentile, math.ceil(share * needed))
        if again <= needed:
            return needed
        needed = again
    return None
