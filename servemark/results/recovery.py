"""Recovery: how long after a command (`--at`) the latency is back where it was before, without failures."""

import math
from collections.abc import Sequence

from servemark.results.schema.metrics import WindowFigures
from servemark.results.schema.recovery import Recovery
from servemark.stats.unknown import explained, unknown

BEFORE = 5
"""Fewest seconds before a command that tell how the latency was."""
CALM = 3
"""Seconds in a row that are as before: then the latency has recovered."""
SPARE = 1.1
"""A second is as before up to this times the slowest of those before."""
PERCENTILES = ("p99_ms", "p90_ms", "p50_ms")
_TOO_FEW = "too few requests in some second before it for a median: a higher rate"
_TOO_EARLY = f"it came before the first {BEFORE} seconds had passed, or so soon after the command before it"
_NEVER = "the run ended before {calm} seconds in a row were as before"


@explained
def recovery(windows: Sequence[WindowFigures], at_s: float, since_s: float) -> Recovery:
    """Judge the windows of a second each around a command that began at `at_s`, the one before it at `since_s`."""
    before = [window for window in windows if since_s <= window["start_s"] <= at_s - 1]
    after = [window for window in windows if window["start_s"] > at_s - 1]
    percentile = next((key for key in PERCENTILES if all(window.get(key) is not None for window in before)), None)
    if len(before) < BEFORE or percentile is None:
        reason = _TOO_EARLY if len(before) < BEFORE else _TOO_FEW
        return {
            "percentile": unknown(reason),
            "before_ms": unknown(reason),
            "worst_ms": unknown(reason),
            "errors": sum(window["errors"] for window in after),
            "recovery_s": unknown(reason),
            "recovered": None,
        }
    level = max(_value(window, percentile) or 0.0 for window in before)
    calm = [_calm(window, percentile, SPARE * level) for window in after]
    first = next((place for place in range(len(calm) - CALM + 1) if all(calm[place : place + CALM])), None)
    disturbed = after if first is None else after[:first]
    worst = max((value for window in disturbed if (value := _value(window, percentile)) is not None), default=level)
    return {
        "percentile": percentile.removesuffix("_ms"),
        "before_ms": level,
        "worst_ms": worst,
        "errors": sum(window["errors"] for window in disturbed),
        "recovery_s": unknown(_NEVER.format(calm=CALM)) if first is None else _since(after[first], at_s),
        "recovered": first is not None,
    }


def slowest(found: Sequence[Recovery]) -> float | None:
    """The longest recovery (s), infinite where one did not come about. None: it is not known of one."""
    if any(each["recovered"] is None for each in found):
        return None
    return max((math.inf if (s := each["recovery_s"]) is None else s for each in found), default=None)


def _since(window: WindowFigures, at_s: float) -> float:
    return max(window["start_s"] - at_s, 0.0)


def _value(window: WindowFigures, percentile: str) -> float | None:
    values = {"p99_ms": window["p99_ms"], "p90_ms": window.get("p90_ms"), "p50_ms": window["p50_ms"]}
    return values[percentile]


def _calm(window: WindowFigures, percentile: str, limit_ms: float) -> bool:
    value = _value(window, percentile)
    return value is not None and value <= limit_ms and not window["errors"]
