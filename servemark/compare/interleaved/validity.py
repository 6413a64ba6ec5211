"""Rounds of a comparison: the length that they need, the conditions under which they count, and enough of them."""

import math

from servemark.documents.load import ClosedLoop, ConstantRate
from servemark.documents.saved_load import load_of
from servemark.errors import ExitCode
from servemark.results.constraint_kinds import About, Kind, about
from servemark.results.constraints import MAX_WINDOWS, STEADY_REQUESTS
from servemark.results.schema.comparison import ComparisonDocument
from servemark.results.schema.run import Result
from servemark.results.verdict import exit_code_of, failed_constraints
from servemark.search.max_rate.search import lowest_rate
from servemark.stats.percentiles import samples_needed
from servemark.stats.ratios import RatioFigures
from servemark.stats.trend import RELEVANT, max_over_min

SHORTEST_S, MAX_DURATION_S = 8.0, 120.0
SPARE = 1.25
"""A round may find the machine slower than its warm-up did."""
SEARCHED_SHARE = 0.5
"""Lowest share of the warm-up's rate that a search for the highest rate can judge: most objectives lie above."""
CLOSED_REQUESTS = 60
EQUAL = 0.02
"""An engine is equal to the first where the interval of the ratio lies within this of 1."""


def requests_needed(*, closed: bool, percentile: float | None) -> int:
    """Return the number of requests that a round needs for its windows' figures and its objective's percentile.

    An open loop's windows are judged by their p50, a closed one's by counts.
    """
    windows = CLOSED_REQUESTS if closed else MAX_WINDOWS * samples_needed(50)
    return max(windows, samples_needed(percentile or 50))


def fewest_requests(percentile: float | None) -> int:
    """Return the number of requests below which a round is INVALID, or its objective's percentile unknown."""
    return max(STEADY_REQUESTS, samples_needed(percentile or 50))


def round_length_s(requests: int, rate: float) -> float:
    """Return the whole seconds in which the slowest engine, at `rate` requests/s, answers these requests."""
    return _within(SPARE * requests / rate)


def search_length_s(percentile: float, rate: float) -> float:
    """Return the whole seconds in which a search's run near `rate` requests/s has enough requests for its percentile.

    They are enough for its windows too: short ones would make a random run look unsteady, as if its rate were too high.
    """
    requests = max(lowest_rate(percentile, 1.0), requests_needed(closed=False, percentile=percentile))
    return _within(requests / (SEARCHED_SHARE * rate))


def _within(seconds: float) -> float:
    return min(max(float(math.ceil(seconds)), SHORTEST_S), MAX_DURATION_S)


def unmet(result: Result) -> list[str]:
    """Return the constraints that keep a run from counting as a round; if there are none, it counts.

    `other_load` is not one of them, because other work disturbs all engines alike over interleaved rounds, and the
    interval over the rounds includes it. The report names the most disturbed engine beside the figures.
    """
    failed = failed_constraints(result["verdict"])
    return [name for name in failed if name not in about(failed, About.MACHINE)]


def disturbed(result: Result) -> bool:
    """Return True if other work took cores from a run."""
    return bool(about(failed_constraints(result["verdict"]), About.MACHINE))


def unsteady(result: Result) -> bool:
    """Return True if a run counts although its windows scatter: they lie more than 10 % apart, and do not drift."""
    load = load_of(result)
    closed = isinstance(load, ClosedLoop)
    found = [window["requests_per_s"] if closed else window["p50_ms"] for window in result["windows"]]
    values = [value for value in found if value is not None]
    failed = Kind.STEADY_STATE in failed_constraints(result["verdict"])
    level = isinstance(load, ClosedLoop | ConstantRate)
    return level and not failed and bool(values) and max_over_min(values) > RELEVANT


def exit_code(result: Result) -> ExitCode:
    """Return a round's contribution to the exit code of its comparison."""
    return exit_code_of(not unmet(result), result["verdict"]["objective"])


def decided(document: ComparisonDocument) -> bool:
    """Tell whether each engine is told apart from the baseline by its median and its throughput, or equal to it."""
    found = [row["ratio"] for row in document["rows"] if row["label"] != document["baseline"]]
    return all(_decided(ratio["p50"]) and _decided(ratio["inferences_per_s"]) for ratio in found)


def _decided(ratio: RatioFigures | None) -> bool:
    if ratio is None or ratio["ci95"] is None:
        return False
    low, high = ratio["ci95"]
    return bool(ratio["significant"]) or (low >= 1 - EQUAL and high <= 1 + EQUAL)
