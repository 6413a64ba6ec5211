"""Transients: how long after a command (`--at`), or after a cold start, the latency is steady, without failures."""

import math
from collections.abc import Sequence

from servemark.quantities import figure
from servemark.results.schema.details import ColdStart, Recovery, Settling, WindowFigures
from servemark.stats.percentiles import samples_needed
from servemark.stats.trend import drift
from servemark.stats.unknown import explained, or_unknown, unknown, unknown_group

BEFORE = 5
"""Fewest seconds before a command that tell how the latency was."""
SHORTEST = 12
"""Fewest seconds of a cold start: their second half tells how the latency is once a server is warm.

The last five alone are too few, because the p99 of a second scatters: of 1,200 requests/s threefold on a quiet machine.
"""
CALM = 3
"""Seconds in a row that are like those which tell how the latency is: then it has recovered, or is steady."""
SPARE = 1.1
"""A second is like those up to this times their slowest."""
PERCENTILES = ("p99_ms", "p90_ms", "p50_ms")
_TOO_EARLY = f"it came before the first {BEFORE} seconds had passed, or so soon after the command before it"
_NEVER = f"the run ended before {CALM} seconds in a row were as before"
_LONGER = "raise --duration"
_SHORT = f"fewer than {SHORTEST} whole seconds were measured: {_LONGER}"
_NOT_STEADY = f"no {CALM} seconds in a row were without failures and as fast as the second half: {_LONGER}"
_NOT_OURS = "the server was not started for this run"


@explained
def recovery(windows: Sequence[WindowFigures], at_s: float, since_s: float) -> Recovery:
    """Judge the windows of a second each around a command that began at `at_s`, the one before it at `since_s`."""
    before = [window for window in windows if since_s <= window["start_s"] <= at_s - 1]
    after = [window for window in windows if window["start_s"] > at_s - 1]
    percentile = _highest(before)
    if len(before) < BEFORE or percentile is None:
        reason = _TOO_EARLY if len(before) < BEFORE else _too_few(before, "before it")
        return {
            "percentile": unknown(reason),
            "before_ms": unknown(reason),
            "worst_ms": unknown(reason),
            "errors": sum(window["errors"] for window in after),
            "recovery_s": unknown(reason),
            "recovered": None,
        }
    level = max(_value(window, percentile) or 0.0 for window in before)
    first = _first_calm(after, percentile, level)
    disturbed = after if first is None else after[:first]
    worst = max((value for window in disturbed if (value := _value(window, percentile)) is not None), default=level)
    return {
        "percentile": percentile.removesuffix("_ms"),
        "before_ms": level,
        "worst_ms": worst,
        "errors": sum(window["errors"] for window in disturbed),
        "recovery_s": unknown(_NEVER) if first is None else max(after[first]["start_s"] - at_s, 0.0),
        "recovered": first is not None,
    }


def slowest(found: Sequence[Recovery]) -> float | None:
    """The longest recovery (s), infinite where one did not come about. None: it is not known of one."""
    if any(each["recovered"] is None for each in found):
        return None
    return max((math.inf if (s := each["recovery_s"]) is None else s for each in found), default=None)


@explained
def cold_start(
    seconds: Sequence[WindowFigures], *, load_s: float | None, waited_s: float | None, first_answer_ms: float | None
) -> ColdStart:
    """Judge the whole seconds of the load that a server had from its first request on."""
    settled = _settling(seconds)
    after_s = settled["steady_after_s"]
    whole_s = None if load_s is None or after_s is None else load_s + after_s
    return {
        **settled,
        "load_s": or_unknown(load_s, _NOT_OURS),
        "waited_s": or_unknown(waited_s, _NOT_OURS),
        "first_answer_ms": or_unknown(first_answer_ms, "no request was answered"),
        "cold_start_s": or_unknown(whole_s, "it needs `load_s` and `steady_after_s`"),
    }


def steady_after(found: ColdStart | None, limit_s: float, measured_s: float) -> float | None:
    """Return the seconds of a cold start; infinite where it was not steady in the limit, and the run tells so."""
    if found is None or found["cold_start_s"] is not None:
        return found and found["cold_start_s"]
    if found["load_s"] is None or found["steady"] is not False:
        return None
    # The second half tells how the latency is, and so not from when it was so.
    return math.inf if found["load_s"] + measured_s / 2 - 1 > limit_s else None


@explained
def _settling(seconds: Sequence[WindowFigures]) -> Settling:
    half = len(seconds) // 2
    percentile = _highest(seconds[half:])
    if len(seconds) < SHORTEST or percentile is None:
        short = len(seconds) < SHORTEST
        return unknown_group(Settling, _SHORT if short else _too_few(seconds[half:], "of the second half"))
    level = max(_value(second, percentile) or 0.0 for second in seconds[half:])
    first = _first_calm(seconds[: half + CALM - 1], percentile, level)
    restless = _NOT_STEADY if first is None else _drifting(seconds[first:], percentile)
    return {
        "percentile": percentile.removesuffix("_ms"),
        "first_second_ms": or_unknown(_value(seconds[0], percentile), "too few requests of that second were answered"),
        "last_ms": level,
        "steady_after_s": unknown(restless) if first is None or restless else seconds[first]["start_s"],
        "steady": not restless,
    }


def _too_few(seconds: Sequence[WindowFigures], which: str) -> str:
    fewest = min(seconds, key=lambda each: each.get("count", 0))
    return (
        f"a second {which} has {fewest.get('count', 0)} good requests, "
        f"and {samples_needed(50)} are needed for a median: a higher rate"
    )


def _drifting(seconds: Sequence[WindowFigures], percentile: str) -> str:
    """Say how the latency drifts in these seconds; "" where it does not."""
    values = [value for second in seconds if (value := _value(second, percentile)) is not None]
    if (ratio := drift(values, carry_over=True)) is None:
        return ""
    from_s, name = seconds[0]["start_s"], percentile.removesuffix("_ms")
    way = "up" if ratio > 1 else "down"
    return f"{name} still went {way} after {from_s:g} s, from {figure(values[0])} to {figure(values[-1])} ms: {_LONGER}"


def _highest(seconds: Sequence[WindowFigures]) -> str | None:
    """The highest percentile that each of these seconds has."""
    return next((key for key in PERCENTILES if all(second.get(key) is not None for second in seconds)), None)


def _first_calm(seconds: Sequence[WindowFigures], percentile: str, level: float) -> int | None:
    """The place of the first of some seconds in a row without failures that are about as fast as this level."""
    calm = [
        (value := _value(second, percentile)) is not None and value <= SPARE * level and not second["errors"]
        for second in seconds
    ]
    return next((place for place in range(len(calm) - CALM + 1) if all(calm[place : place + CALM])), None)


def _value(window: WindowFigures, percentile: str) -> float | None:
    values = {"p99_ms": window["p99_ms"], "p90_ms": window.get("p90_ms"), "p50_ms": window["p50_ms"]}
    return values[percentile]
