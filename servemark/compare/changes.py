"""Changes in a series of values that is looked at after each new one: an e-detector of ranks.

A test that is right once is wrong sooner or later when it is repeated. A detector states instead how many values of
pure noise pass, on average, until it alarms: its average run length.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

RUN_LENGTH = 200
"""Least average number of values of pure noise until a false alarm."""
MIN_RESULTS = 10
"""Minimum number of values: in no order of nine is there evidence of a change."""
MAX_AGE = 100
"""A change is looked for among so many of the latest values; all before them are its past."""
DETECTABLE_IN = 10
"""Largest number of latest values in which a change is tried, to tell the smallest that would be seen."""
_SHARES = np.geomspace(0.01, 3.0, 40)
_ODDS = np.array([3.0, 10.0, 50.0])
"""Alternatives: a value after the change is the largest of so many from before it, or the smallest."""
_ALIKE = 20.0
"""Places whose likelihoods differ by at most this factor cannot be told apart by order alone."""
_MAX_CORRELATION = 0.9
Floats = npt.NDArray[np.float64]


class Look(NamedTuple):
    """State of the detector after a value."""

    evidence: float
    """An alarm is raised where it reaches RUN_LENGTH."""
    change: int
    """Index of the first value of the likeliest new level."""


@dataclass(frozen=True)
class Alarm:
    """A change that was found."""

    change: int
    """Index of the first value after it."""
    seen: int
    """Index of the value with which it was seen."""
    evidence: float
    """Largest evidence for it since then."""


def alarms(values: Sequence[float] | Floats) -> tuple[list[Alarm], float]:
    """Return the changes in the order in which they were found, and the evidence for a further one at the last value.

    Each value is looked at when it comes, with those before it. After an alarm the detector begins again at the change.
    """
    series = np.asarray(values, dtype=np.float64)
    found: list[Alarm] = []
    start = 0
    while True:
        looks = [look(series[start:end]) for end in range(start + MIN_RESULTS, len(series) + 1)]
        raised = next((number for number, each in enumerate(looks) if each.evidence >= RUN_LENGTH), None)
        if raised is None:
            return found, looks[-1].evidence if looks else 0.0
        strongest = max(each.evidence for each in looks[raised:])
        begun = start
        start += looks[raised].change
        found.append(Alarm(start, begun + MIN_RESULTS + raised - 1, strongest))


def look(values: Floats) -> Look:
    """Return the evidence of a change in these values, the last of which is new.

    Let values before a change be drawn from any distribution F, and those after it from F ** odds. Then the likelihood
    of their order is known, whatever F is (I. R. Savage, Contributions to the theory of rank order statistics, Annals
    of Mathematical Statistics 27, 1956). Divided by that of noise, in which all orders are alike, it has mean 1 in
    noise, and so has its mean over odds and both directions. The sum over all places of the change therefore has at
    most the mean n after n values: a Shiryaev-Roberts e-detector, whose average run length is at least the limit
    (Shin, Ramdas and Rinaldo, E-detectors, New England Journal of Statistics in Data Science 2, 2024).

    Values that resemble their neighbour tell less. With their correlation r each likelihood is taken to the power
    (1 - r) / (1 + r), which can only lower the evidence.
    """
    places = np.arange(max(1, len(values) - MAX_AGE), len(values))
    logs = np.stack([_log_likelihoods(values, places, sign) for sign in (1, -1)])
    summed = np.exp(logs).mean(axis=(0, 1))
    change = _furthest_apart(values, places[summed * _ALIKE >= summed.max()])
    evidence = float(summed.sum())
    if evidence >= RUN_LENGTH:
        alike = _correlation(values, change)
        evidence = min(evidence, float(np.exp(logs * (1 - alike) / (1 + alike)).mean(axis=(0, 1)).sum()))
    return Look(evidence, change)


def _log_likelihoods(values: Floats, places: npt.NDArray[np.int64], sign: int) -> Floats:
    """Return the logarithm of the likelihood ratio of the order for each odds and place of the change."""
    # Of equal values the later one counts as the smaller, so that they are never evidence.
    order = np.lexsort((-np.arange(len(values)), sign * values))
    after = np.cumsum(order[None, :] >= places[:, None], axis=1) / np.arange(1, len(values) + 1)
    number = len(values) - places
    return np.stack([number * math.log(odds) - np.log1p((odds - 1) * after).sum(axis=1) for odds in _ODDS])


def _furthest_apart(values: Floats, places: npt.NDArray[np.int64]) -> int:
    """Return the place whose levels are furthest apart relative to their noise: least squares."""
    sums = np.cumsum(values - values.mean())[places - 1]
    return int(places[(sums**2 / (places * (len(values) - places))).argmax()])


def _correlation(values: Floats, change: int) -> float:
    """Return the correlation of neighbours within the two levels, without its bias (Kendall 1954); at least 0."""
    levels = np.split(values, [change])
    off = np.concatenate([level - level.mean() for level in levels])
    squares = float((off**2).sum())
    found = float((off[1:] * off[:-1]).sum()) / squares if squares else 0.0
    return min(max(found + (1 + 3 * found) / len(values), 0.0), _MAX_CORRELATION)


def detectable(values: Sequence[float] | Floats, sign: int) -> float | None:
    """Return the smallest change of these logarithms' latest half, DETECTABLE_IN at most, that would raise an alarm.

    It is a share, tried in the direction of the sign from 1 % to 300 %; None: the values are too few, or too noisy.
    """
    series = np.asarray(values, dtype=np.float64)
    if len(series) < MIN_RESULTS:
        return None
    return next((float(share) for share in _SHARES if _is_seen(series, sign * math.log1p(share))), None)


def results_needed(values: Sequence[float] | Floats, sign: int) -> int | None:
    """Return how many values like these would show the largest change that `detectable` tries.

    None: not even MAX_AGE of them would, so that they are too noisy.
    """
    series, most = np.asarray(values, dtype=np.float64), sign * math.log1p(_SHARES[-1])
    counts = range(max(len(series), MIN_RESULTS), MAX_AGE + 1)
    return next((count for count in counts if _is_seen(np.resize(series, count), most)), None)


def _is_seen(series: Floats, change: float) -> bool:
    """Return True if this change of the logarithms of the latest half would raise an alarm."""
    changed = series.copy()
    changed[-detectable_in(len(series)) :] += change
    return look(changed).evidence >= RUN_LENGTH


def detectable_in(number: int) -> int:
    """Return how many of the latest values a change must have lasted for, to be one that `detectable` tells."""
    return min(DETECTABLE_IN, number // 2)


def sure(evidence: Sequence[float | None]) -> list[bool]:
    """Return which of several series' evidence stays where all are looked at together; None is a series without.

    The k largest are kept if each is at least RUN_LENGTH * n / k: Benjamini and Hochberg's rule for e-values, which
    holds for series that depend on each other too (Wang and Ramdas, False discovery rate control with e-values, JRSS B
    84, 2022).
    """
    ordered = sorted((each or 0.0 for each in evidence), reverse=True)
    kept = [each for number, each in enumerate(ordered, 1) if each * number >= RUN_LENGTH * len(ordered)]
    return [each is not None and bool(kept) and each >= kept[-1] for each in evidence]
