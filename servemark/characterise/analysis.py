"""The analysis of a suite's features: clusters, places in a plane, and the few that stand for all, tested.

Workloads are points: their features are made comparable, then medoids, hierarchical clusters and places are found.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.errors import ServemarkError
from servemark.results.schema.header import reason_of
from servemark.results.schema.suite import (
    Analysis,
    Characterisation,
    CharacterisedWorkload,
    Claim,
    OnEngine,
    Prediction,
)
from servemark.stats.ratios import MINIMUM_PAIRS, RESAMPLES, expanded
from servemark.stats.unknown import explained, or_unknown, unknown
from servemark.workload.suites import aibench

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
FEWEST = 4
"""Workloads; among fewer there is nothing to cluster."""
_PERPLEXITY = 5.0
MOST_CLUSTERS = 8
_MOST_SUBSETS = 50_000
RANDOM = 1000
CHOSEN, RANDOMLY = "medoids of the features", "random subsets"
AIBENCH = "AIBench's own subset"
PARAMETERS, WORK, MOVED = "parameters (millions)", "GFLOP", "MB moved"
INTENSITY, LATENCY, SPEED = "FLOP/byte", "latency (ms)", "GFLOP/s"


def analyse(document: Characterisation) -> tuple[Analysis | None, Prediction | None]:
    """Return the analysis of a document's rows and its prediction, or unknown ones."""
    rows = [row for row in document["rows"] if first_engine(row)]
    least = max(FEWEST, document["size"] + 1)
    if len(rows) < least:
        few = f"{len(rows)} workloads ran on the first engine, {least} are needed"
        return unknown(few), unknown(few)
    found = [sizes(row) for row in rows]
    kept, left_out = _known(rows, found)
    left_out += [f"{row['workload']}: it did not run" for row in document["rows"] if row not in rows]
    shares = [[c["share"] for c in each["profile"]["categories"]] for row in rows if (each := first_engine(row))]
    points = comparable(np.array([[each[name] for name in kept] for each in found], float), np.array(shares))
    apart = distances(points)
    chosen = medoids(apart, document["size"])
    analysis = _analysis(document, [row["workload"] for row in rows], points, chosen)
    analysis |= {"features": [*kept, "time by category"], "left_out": left_out}
    few_ratios = "no ratio outside the chosen workloads is known: name a second engine or batch size"
    return analysis, or_unknown(predict(rows, apart, chosen), few_ratios)


def _known(
    rows: Sequence[CharacterisedWorkload], found: Sequence[dict[str, float | None]]
) -> tuple[list[str], list[str]]:
    """Features that are known of all workloads and not zero, and why the others are not among them."""
    lacking = {
        name: [row["workload"] for row, each in zip(rows, found, strict=True) if not each[name]] for name in found[0]
    }
    left_out = [f"{name}: not known of {', '.join(names)}" for name, names in lacking.items() if names]
    return [name for name, names in lacking.items() if not names], left_out


def _analysis(document: Characterisation, names: Sequence[str], points: Floats, chosen: Sequence[int]) -> Analysis:
    parts = clusters(points, document["size"])
    planes = [tsne(points, seed) for seed in range(document["seeds"])]
    places, share = principal(points)
    stands_in = nearest(distances(points), chosen)
    return {
        "features": [],
        "left_out": [],
        "placed": [
            {
                "workload": name,
                "cluster": int(parts[number]),
                "stands_in": names[stands_in[number]],
                "pca": places[number].tolist(),
                "tsne": planes[0][number].tolist(),
            }
            for number, name in enumerate(names)
        ],
        "chosen": [names[number] for number in chosen],
        "pca_share": share,
        "silhouettes": silhouettes(points),
        "seeds": document["seeds"],
        "tsne_agreement": [agreement(parts, clusters(plane, document["size"])) for plane in planes],
    }


def first_engine(row: CharacterisedWorkload) -> OnEngine | None:
    """Return a workload on the first engine, if it ran there."""
    return next((each for each in row["engines"][:1] if failure_of(each) is None), None)


def failure_of(on: OnEngine) -> str | None:
    """Return the reason why an engine did not run a workload; None if it did."""
    return reason_of(on["profile"], "latency_ms")


def work_of(on: OnEngine) -> tuple[int, int]:
    """Operations and bytes of the operators whose shapes the profiler tells."""
    told = [each for each in on["profile"]["operators"] if each["flops"] is not None and each["bytes"] is not None]
    return sum(each["flops"] or 0 for each in told), sum(each["bytes"] or 0 for each in told)


def sizes(row: CharacterisedWorkload) -> dict[str, float | None]:
    """Features of a workload that are sizes: of the network, and of one sample on the first engine."""
    on = first_engine(row)
    counted, moved = work_of(on) if on else (0, 0)
    ms = on["batches"][0]["ms"] if on else None
    flops = row["flops"] or counted
    return {
        PARAMETERS: row["parameters"] / 1e6 if row["parameters"] else None,
        WORK: flops / 1e9,
        MOVED: moved / 1e6,
        INTENSITY: flops / moved if flops and moved else None,
        LATENCY: ms,
        SPEED: flops / ms / 1e6 if flops and ms else None,
    }


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
    """Mean absolute error of the predicted logarithms of each workload outside, over its contexts that are known.

    The claim that a few stand for all is tested so. A ratio is the time of a sample in a context (an engine at a batch
    size) to that on the first engine at batch 1. The prediction for a workload is the ratio of the member that is
    nearest to it. Features are of the first engine at batch 1 alone, so no ratio that is predicted has any part in the
    prediction.
    """
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


@explained
def predict(rows: Sequence[CharacterisedWorkload], apart: Floats, chosen: Sequence[int]) -> Prediction | None:
    """Test the chosen workloads, AIBench's subset if all of it is there, and random subsets of the same size.

    None where no ratio is known outside the chosen ones.
    """
    contexts, logs = log_ratios(rows)
    if not contexts or not len(errors(logs, apart, chosen)):
        return None
    rng = np.random.default_rng(0)
    drawn = [sorted(rng.choice(len(rows), len(chosen), replace=False).tolist()) for _ in range(RANDOM)]
    random = np.array([_factor(errors(logs, apart, members)) for members in drawn])
    by_mean = np.array([_factor(errors(logs, apart, members, by_mean=True)) for members in drawn])
    random_known = random[~np.isnan(random)]
    names = [row["workload"] for row in rows]
    subsets = {CHOSEN: list(chosen)}
    if {*aibench.SUBSET} <= {*names}:
        subsets[AIBENCH] = [names.index(name) for name in aibench.SUBSET]
    low, middle, high = (float(np.quantile(random_known, at)) for at in (0.025, 0.5, 0.975))

    def claim(subset: str, members: list[int]) -> Claim:
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
            "better_than": float((random_known > factor).mean()),
        }

    return {
        "contexts": contexts,
        "random_subsets": len(random_known),
        "unchanged_factor": _factor(np.abs(logs)[~np.isnan(logs)]),
        "claims": [
            *(claim(name, members) for name, members in subsets.items()),
            {
                "subset": RANDOMLY,
                "members": [],
                "judged": unknown("it differs between them"),
                "factor": middle,
                "interval": [low, high],
                "mean_factor": float(np.nanmedian(by_mean)),
                "better_than": unknown("half of them are worse, by the median"),
            },
        ],
    }


def _factor(found: Floats) -> float:
    """The mean error as a factor; nan without any."""
    return math.exp(float(found.mean())) if len(found) else math.nan


def _interval(found: Floats, rng: np.random.Generator) -> list[float]:
    means = rng.choice(found, (RESAMPLES, len(found))).mean(axis=1)
    return [math.exp(float(end)) for end in np.quantile(means, expanded(len(found)))]


def require_package() -> None:
    """Raise ServemarkError where scikit-learn is not installed."""
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise ServemarkError(
            f"clusters need scikit-learn: {error}", fix='pip install "servemark[characterise]"'
        ) from error


def comparable(sizes: Floats, shares: Floats) -> Floats:
    """Make features of sizes and of shares comparable; a row for each workload.

    Sizes, which span decades, become logarithms with mean 0 and deviation 1. Of shares, which add up to 1, the square
    roots are taken, so that Euclid's distance is Hellinger's. Both groups get the same variance in all, so that neither
    counts more because it has more columns (multiple factor analysis: Escofier and Pages, Computational Statistics &
    Data Analysis 18, 1994).
    """
    logs = np.log10(sizes)
    deviation = logs.std(axis=0)
    scaled = (logs - logs.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    rooted = np.sqrt(np.clip(shares, 0.0, None))
    groups = [group - group.mean(axis=0) for group in (scaled, rooted)]
    whole = [float(group.var(axis=0).sum()) for group in groups]
    return np.hstack([group / np.sqrt(var) if var > 0 else group for group, var in zip(groups, whole, strict=True)])


def distances(points: Floats) -> Floats:
    """Euclid's distances between all points."""
    from scipy.spatial.distance import cdist

    found: Floats = cdist(points, points)
    return found


def medoids(apart: Floats, size: int) -> list[int]:
    """Return the points to whose nearest the distances of all others add up to least, in order.

    All subsets are tried where they are few enough. Else by PAM (Kaufman and Rousseeuw 1990, "Finding Groups in Data",
    chapter 2): built one by one, then swapped while that helps, which may end beside the best.
    """
    count = len(apart)
    if math.comb(count, size) <= _MOST_SUBSETS:
        return list(min(itertools.combinations(range(count), size), key=lambda few: _cost(apart, few)))
    chosen: list[int] = []
    while len(chosen) < min(size, count):
        chosen.append(min(set(range(count)) - {*chosen}, key=lambda point: _cost(apart, [*chosen, point])))
    while True:
        swaps = [
            [*(each for each in chosen if each != out), into]
            for out in chosen
            for into in sorted(set(range(count)) - {*chosen})
        ]
        best = min(swaps, key=lambda swap: _cost(apart, swap), default=chosen)
        if _cost(apart, best) >= _cost(apart, chosen) - 1e-12:
            return sorted(chosen)
        chosen = best


def _cost(apart: Floats, chosen: Iterable[int]) -> float:
    return float(apart[:, list(chosen)].min(axis=1).sum())


def nearest(apart: Floats, members: Sequence[int]) -> Whole:
    """Return the member that is nearest to each point; a member is nearest to itself."""
    found: Whole = np.asarray(members)[apart[:, list(members)].argmin(axis=1)]
    found[list(members)] = members
    return found


def clusters(points: Floats, count: int) -> Whole:
    """Part points into hierarchical clusters by Ward's method; numbers from 1 in the order of the points."""
    from sklearn.cluster import AgglomerativeClustering

    labels: Any = AgglomerativeClustering(n_clusters=count).fit_predict(points)
    order = list(dict.fromkeys(labels.tolist()))
    return np.array([order.index(label) + 1 for label in labels])


def silhouettes(points: Floats) -> dict[str, float]:
    """Map numbers of clusters, from 2 on, to the mean silhouette of these clusters."""
    from sklearn.metrics import silhouette_score

    most = min(MOST_CLUSTERS, len(points) - 1)
    return {f"{count}": float(silhouette_score(points, clusters(points, count))) for count in range(2, most + 1)}


def principal(points: Floats) -> tuple[Floats, float]:
    """Places by the first two principal components, and their share of the variance."""
    from sklearn.decomposition import PCA

    parts = PCA(n_components=2, svd_solver="full")
    places: Floats = parts.fit_transform(points)
    return places, float(parts.explained_variance_ratio_.sum())


def tsne(points: Floats, seed: int) -> Floats:
    """Places by t-SNE (van der Maaten and Hinton, JMLR 9, 2008), begun at random, without approximation."""
    from sklearn.manifold import TSNE

    perplexity = min(_PERPLEXITY, (len(points) - 1) / 3)
    found: Floats = TSNE(2, perplexity=perplexity, init="random", random_state=seed, method="exact").fit_transform(
        points
    )
    return found.astype(float)


def agreement(first: Whole, second: Whole) -> float:
    """Adjusted Rand index of two clusterings: 1 where they are equal, 0 by chance."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(first, second))
