"""Workloads as points: features made comparable, medoids, hierarchical clusters, and places in a plane."""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.errors import ServemarkError

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
FEWEST = 4
"""Workloads; among fewer there is nothing to cluster."""
_PERPLEXITY = 5.0
MOST_CLUSTERS = 8
_MOST_SUBSETS = 50_000


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
