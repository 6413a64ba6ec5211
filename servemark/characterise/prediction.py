"""A test of the claim that a few workloads stand for all: they have to predict the ratios of the others.

A ratio is the time of a sample in a context (an engine at a batch size) to that on the first engine at batch 1. The
prediction for a workload is the ratio of the member that is nearest to it. Features are of the first engine at batch 1
alone, so no ratio that is predicted has any part in the prediction.
"""

import math
from collections.abc import Sequence

import numpy as np

from servemark.characterise.statistics import Floats, nearest
from servemark.results.schema.characterisation import CharacterisedWorkload, Claim, Prediction
from servemark.stats.ratios import MINIMUM_PAIRS, RESAMPLES, expanded
from servemark.stats.unknown import explained, unknown
from servemark.workload.suites import aibench

RANDOM = 1000
CHOSEN, RANDOMLY = "medoids of the features", "random subsets"
AIBENCH = "AIBench's own subset"


def log_ratios(rows: Sequence[CharacterisedWorkload]) -> tuple[list[str], Floats]:
    """Contexts, and the logarithm of each workload's ratio in each (nan: not measured)."""
    times = [
        {
            f"{each['engine']}, batch {batch['batch_size']}": batch["ms"] / batch["batch_size"]
            for each in row["engines"]
            for batch in each["batches"]
            if batch["ms"]
        }
        for row in rows
    ]
    base, *contexts = dict.fromkeys(context for found in times for context in found)
    logs = [[math.log(found[c] / found[base]) if c in found else math.nan for c in contexts] for found in times]
    return contexts, np.array(logs, float).reshape(len(rows), len(contexts))


def errors(logs: Floats, apart: Floats, members: Sequence[int], *, by_mean: bool = False) -> Floats:
    """Mean absolute error of the predicted logarithms of each workload outside, over its contexts that are known."""
    outside = [point for point in range(len(logs)) if point not in members]
    if by_mean:
        predicted = np.broadcast_to(_mean(logs[list(members)]), logs.shape)[outside]
    else:
        predicted = logs[nearest(apart, members)[outside]]
    found = _mean(np.abs(predicted - logs[outside]).T)
    return found[~np.isnan(found)]


def _mean(values: Floats) -> Floats:
    """Mean over the first axis of what is known, nan where nothing is."""
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), math.nan)


def predict(
    rows: Sequence[CharacterisedWorkload], apart: Floats, chosen: Sequence[int], *, seed: int = 0
) -> Prediction | None:
    """Test the chosen workloads, AIBench's subset if all of it is there, and random subsets of the same size.

    None where no ratio is known outside the chosen ones.
    """
    contexts, logs = log_ratios(rows)
    if not contexts or not len(errors(logs, apart, chosen)):
        return None
    rng = np.random.default_rng(seed)
    drawn = [sorted(rng.choice(len(rows), len(chosen), replace=False).tolist()) for _ in range(RANDOM)]
    random = np.array([_factor(errors(logs, apart, members)) for members in drawn])
    by_mean = np.array([_factor(errors(logs, apart, members, by_mean=True)) for members in drawn])
    known = ~np.isnan(random)
    names = [row["workload"] for row in rows]
    subsets = {CHOSEN: list(chosen)}
    if {*aibench.SUBSET} <= {*names}:
        subsets[AIBENCH] = [names.index(name) for name in aibench.SUBSET]
    low, middle, high = (float(np.quantile(random[known], at)) for at in (0.025, 0.5, 0.975))
    return {
        "contexts": contexts,
        "random_subsets": int(known.sum()),
        "unchanged_factor": _factor(np.abs(logs)[~np.isnan(logs)]),
        "claims": [
            *(_claim(name, members, names, logs, apart, random[known], rng) for name, members in subsets.items()),
            _random(middle, low, high, float(np.nanmedian(by_mean))),
        ],
    }


@explained
def _claim(
    subset: str,
    members: list[int],
    names: Sequence[str],
    logs: Floats,
    apart: Floats,
    random: Floats,
    rng: np.random.Generator,
) -> Claim:
    found = errors(logs, apart, members)
    factor = _factor(found)
    few = f"it has {len(found)} workloads outside, and an interval needs {MINIMUM_PAIRS}"
    return {
        "subset": subset,
        "members": [names[member] for member in members],
        "judged": len(found),
        "factor": factor,
        "interval": _interval(found, rng) if len(found) >= MINIMUM_PAIRS else unknown(few),
        "mean_factor": _factor(errors(logs, apart, members, by_mean=True)),
        "better_than": float((random > factor).mean()),
    }


@explained
def _random(middle: float, low: float, high: float, mean_factor: float) -> Claim:
    return {
        "subset": RANDOMLY,
        "members": [],
        "judged": unknown("it differs between them"),
        "factor": middle,
        "interval": [low, high],
        "mean_factor": mean_factor,
        "better_than": unknown("half of them are worse, by the median"),
    }


def _factor(found: Floats) -> float:
    """The mean error as a factor; nan without any."""
    return math.exp(float(found.mean())) if len(found) else math.nan


def _interval(found: Floats, rng: np.random.Generator) -> list[float]:
    means = rng.choice(found, (RESAMPLES, len(found))).mean(axis=1)
    return [math.exp(float(end)) for end in np.quantile(means, expanded(len(found)))]
