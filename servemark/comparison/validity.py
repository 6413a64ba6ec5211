"""The rounds of a comparison: their order, how long they have to be, and which of them count."""

import math

from servemark.errors import ExitCode
from servemark.max_rate.search import lowest_rate
from servemark.results.constraints import MAX_WINDOWS, STEADY_WINDOWS, TREND_WINDOWS
from servemark.results.schema.run import Result
from servemark.results.verdict import exit_code_of, failed_constraints
from servemark.stats.percentiles import samples_needed
from servemark.stats.trend import has_trend

SHORTEST_S, MAX_DURATION_S = 8.0, 120.0
SPARE = 1.25
"""A round may find the machine slower than its warm-up did."""
SEARCHED_SHARE = 0.5
"""A search for the highest rate has to be able to judge so much of the rate seen before: most objectives lie above."""
QUIET = "quiet_machine"
ROUND_TREND_LEVEL = 0.005
"""Of 20 rounds one would show a trend by luck in 64 of 100 comparisons at 5 %, in 10 of them at 0.5 %."""


def requests_needed(*, closed: bool, percentile: float | None) -> int:
    """How many requests a round's verdict asks for: a p50 in each window, and its objective's percentile."""
    # Ten windows joined two by two would be five, too few to show a trend.
    windows = STEADY_WINDOWS if closed else MAX_WINDOWS
    return max(windows * samples_needed(50), samples_needed(percentile or 50))


def round_length_s(requests: int, rate: float) -> float:
    """Whole seconds in which the slowest engine, at so many requests/s, answers these requests."""
    return _within(SPARE * requests / rate)


def search_length_s(percentile: float, rate: float) -> float:
    """Whole seconds in which a search's run holds enough requests for its percentile, near so many requests/s.

    And for its windows: too short ones would call a run unsteady that is only random, as if its rate were too high.
    """
    requests = max(lowest_rate(percentile, 1.0), requests_needed(closed=False, percentile=percentile))
    return _within(requests / (SEARCHED_SHARE * rate))


def _within(seconds: float) -> float:
    return min(max(float(math.ceil(seconds)), SHORTEST_S), MAX_DURATION_S)


def unmet(result: Result) -> list[str]:
    """The constraints that keep a run from counting as a round; none: it counts.

    They are the run's own, but for `quiet_machine`, and `steady_state` where its windows go to and fro without a trend.
    What a machine does to one round it does to others too: that is what interleaved rounds, and an interval over them,
    are for. Who suffered most from other work is said beside the figures.
    """
    failed = [name for name in failed_constraints(result["verdict"]) if name != QUIET]
    return [name for name in failed if name != "steady_state" or not _restless(result)]


def _restless(result: Result) -> bool:
    """Whether a run is unsteady by chance alone: enough requests, something answered all the time, and no trend.

    Judged by the closed loop's throughput, which is concurrency over mean latency (Little's law) and known in every
    window, however few its requests. An open loop's verdict has looked for a trend already.
    """
    rates = [window["requests_per_s"] for window in result["windows"]]
    return (
        result["scenario"]["mode"] == "closed"
        and result["metrics"]["latency_ms"]["count"] >= STEADY_WINDOWS * samples_needed(50)
        and len(rates) >= TREND_WINDOWS
        and all(rates)
        and not has_trend(rates, ROUND_TREND_LEVEL)
    )


def unsteady(result: Result) -> bool:
    """Whether a run counts as a round although it was not steady."""
    return "steady_state" in set(failed_constraints(result["verdict"])) - set(unmet(result))


def exit_code(result: Result) -> ExitCode:
    """What a round contributes to the exit code of its comparison."""
    return exit_code_of(not unmet(result), result["verdict"]["objective"])
