"""Neural collaborative filtering on MovieLens-100K (AIBench DC-AI-C10): `ncf` with the tables of a small data set.

AIBench's report describes these sizes (MovieLens-100K) in one sentence; its configuration and figures are of `ncf`.
This data set can be fetched, so its quality can be measured anywhere.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from servemark.datasets import ml_100k
from servemark.models import ncf
from servemark.models.ncf import Sizes
from servemark.models.synthesis.popularity import Popularity
from servemark.workload import LabelledSet, Quality, Sample, Variant


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw HR@10-like queries: a film by its popularity, then distinct others; curves fitted to MovieLens-100K."""
    rank = np.arange(1, sizes.items + 1)
    users = Popularity.lognormal(sizes.users, median=71.5, sigma=0.88, lo=20, hi=737)
    return ncf.queries(sizes, rng, users, Popularity(rank**-0.15 * np.exp(-rank / 390)))


def labelled(path: Path) -> LabelledSet:
    """Make the HR@10 query of each MovieLens-100K user: the film they rated last, then 99 they never rated.

    Ratings of the same second are in the order of the file. Raises InputDataError.
    """
    return ncf.leave_one_out([(user - 1, films - 1) for user, films in ml_100k.read(path).histories()], FULL)


FULL = Sizes(users=ml_100k.USERS, items=ml_100k.ITEMS, candidates=100)

WORKLOAD = ncf.recommender(
    "ncf_ml100k",
    ncf.TITLE,
    suites=("AIBench DC-AI-C10, variant",),
    origin="MLPerf v0.5's network on a smaller data set, with 99 negatives as in the paper. AIBench publishes no "
    "figure of it; its 63.5 % is of MovieLens-20M with 999.",
    full=Variant(FULL, parameters=611_073, flops=100 * 213_248),
    quality=Quality("HR@10", 0.635, "MovieLens-100K, leave the latest rating out, rank it against 99 unrated films"),
    samples=samples,
    dataset=ml_100k.KEY,
    labelled=labelled,
)
