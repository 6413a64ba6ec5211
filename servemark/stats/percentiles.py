"""Percentiles: the ones a result has, how it names them, and what a sample of so high requests can say of them."""

import math

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
EARLY_STOPPING_CONFIDENCE = 0.99
"""MLPerf's."""
_ROUNDS = 50
"""Steps towards the number of requests that would show a bound; where they do not end, no number would."""


def percentile_key(percentile: float) -> str:
    """The key of a percentile in result.json: 99 -> p99, 99.9 -> p99_9."""
    return f"p{percentile:g}".replace(".", "_")


def samples_needed(percentile: float) -> int:
    """Return the number of samples that a percentile needs: 10 beyond it, 10 / (1 - p)."""
    return math.ceil(round(1000 / (100 - percentile), 6))


def requests_to_show(percentile: float, over: int, confidence: float = EARLY_STOPPING_CONFIDENCE) -> int:
    """The fewest requests that show a percentile to lie within a bound which `over` of them exceeded.

    If fewer than the percentile's share were within the bound, so few over it among n would be luck: n is the smallest
    number at which the chance of that, Binomial(n, 1 - p) <= over, is at most 1 - confidence. MLPerf Inference's
    early-stopping criterion (mlcommons/inference, loadgen/early_stopping.cc), its table reproduced by a test.
    """
    share = _share_over(percentile)
    low, high = over + 1, 2 * (over + 1)
    while _chance_of_at_most(over, high, share) > 1 - confidence:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if _chance_of_at_most(over, middle, share) <= 1 - confidence:
            high = middle
        else:
            low = middle + 1
    return high


def requests_missing(percentile: float, over: int, requests: int) -> int | None:
    """Return the number of further such requests that would show the percentile within the bound: 0 if it is shown.

    As large a share of the further ones would lie over it. None: no number would show it.
    """
    if requests >= requests_to_show(percentile, over):
        return 0
    share = over / requests if requests else 0.0
    if share >= 1 - percentile / 100:
        return None
    needed = requests_to_show(percentile, over)
    for _ in range(_ROUNDS):
        again = requests_to_show(percentile, math.ceil(share * needed))
        if again <= needed:
            return needed - requests
        needed = again
    return None


def beyond_luck(percentile: float, over: int, requests: int, confidence: float = EARLY_STOPPING_CONFIDENCE) -> bool:
    """Return True if this number of requests over a bound shows that the percentile lies beyond it.

    If the percentile kept the bound, `over` requests beyond it would be luck: the chance of that,
    Binomial(n, 1 - p) >= over, is at most 1 - confidence.
    """
    return bool(over) and 1 - _chance_of_at_most(over - 1, requests, _share_over(percentile)) <= 1 - confidence


def over_allowed(percentile: float, requests: int, confidence: float = EARLY_STOPPING_CONFIDENCE) -> int | None:
    """Return the number of requests that may exceed a bound which their percentile keeps; None: they are too few."""
    share = _share_over(percentile)
    if _chance_of_at_most(0, requests, share) > 1 - confidence:
        return None
    low, high = 0, requests
    while low < high:
        middle = (low + high + 1) // 2
        if _chance_of_at_most(middle, requests, share) <= 1 - confidence:
            low = middle
        else:
            high = middle - 1
    return low


def _share_over(percentile: float) -> float:
    return round(1 - percentile / 100, 12)


def _chance_of_at_most(over: int, requests: int, share: float) -> float:
    """The chance of at most `over` requests beyond the bound, if a `share` of all lay beyond it."""
    from scipy.special import bdtr

    return float(bdtr(over, requests, share))
