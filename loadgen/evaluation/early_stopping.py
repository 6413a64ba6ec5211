"""Confidence in the tail of a run: MLPerf's early-stopping criterion for each percentile."""

from typing import Any, cast

from servemark.results.schema.run import EarlyStopping
from servemark.stats.histogram import Histogram, Percentiles
from servemark.stats.percentiles import (
    EARLY_STOPPING_CONFIDENCE,
    PERCENTILES,
    over_allowed,
    percentile_key,
    requests_to_show,
)


def early_stopping(latency: Histogram, failed: int) -> EarlyStopping:
    """The bound in ms that each percentile keeps with 99 % confidence.

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
    }
