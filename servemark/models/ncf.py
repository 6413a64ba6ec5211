"""Neural collaborative filtering: one user, a list of films to score (AIBench DC-AI-C10).

He et al. 2017, "Neural Collaborative Filtering" (WWW): NeuMF in the shape of the MLPerf Training v0.5 reference, with
the tables of MovieLens-20M. That is what AIBench's own configuration runs (ml-20m, factors 64, layers 256-256-128-64,
999 negatives), and its figures fit: 0.213248 MFLOPs a pair, and 190 MB, the size of that data set. One sentence of its
report says MovieLens-100K: `ncf_ml100k` is that.

The served form is the ranking query of the HR@10 protocol: 1 held-out film and 999 others. The pair form (one user, one
film) is the same network with a list of one and is not served apart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import ml_20m
from servemark.models.blocks.weights import seeded
from servemark.models.synthesis.popularity import Popularity
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

EMBEDDING_STD = 1.0
"""The paper's N(0, 0.01) is for training: untrained it leaves every score at 0.5, which would hide a wrong engine."""
NEGATIVES_SEED = 0
HELD_OUT = 0
"""Place of the held-out film among the candidates."""


@dataclass(frozen=True)
class Sizes:
    """NeuMF's vocabularies and widths, and how many films one request ranks."""

    users: int = ml_20m.USERS
    items: int = ml_20m.ITEMS
    factors: int = 64
    layers: tuple[int, ...] = (256, 256, 128, 64)
    candidates: int = 1000


def network(sizes: Sizes) -> Module:
    """Define NeuMF over a list: (user [B, 1], items [B, N]) -> scores [B, N] in (0, 1)."""
    import torch
    from torch import nn

    half = sizes.layers[0] // 2

    class NeuMF(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mf_user = nn.Embedding(sizes.users, sizes.factors)
            self.mf_item = nn.Embedding(sizes.items, sizes.factors)
            self.mlp_user = nn.Embedding(sizes.users, half)
            self.mlp_item = nn.Embedding(sizes.items, half)
            self.mlp = nn.ModuleList(
                nn.Linear(wide, narrow) for wide, narrow in zip(sizes.layers, sizes.layers[1:], strict=False)
            )
            self.output = nn.Linear(sizes.factors + sizes.layers[-1], 1)

        def forward(self, user: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
            user, items = user.long(), items.long()
            factors = self.mf_user(user) * self.mf_item(items)  # [B, 1, factors] * [B, N, factors]
            film = self.mlp_item(items)
            hidden = torch.cat([self.mlp_user(user).expand_as(film), film], dim=2)
            for layer in self.mlp:
                hidden = torch.relu(layer(hidden))
            scores: torch.Tensor = self.output(torch.cat([factors, hidden], dim=2))
            return torch.sigmoid(scores).squeeze(2)

    return NeuMF()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network as the reference does (Glorot MLP, LeCun output) but with wider embeddings."""
    from torch import nn

    with seeded(name):
        model = network(sizes)
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=EMBEDDING_STD)
            elif isinstance(module, nn.Linear) and module.out_features > 1:
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.kaiming_uniform_(module.weight, nonlinearity="linear")
                nn.init.zeros_(module.bias)
    return model.eval()


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw HR@10-like queries: a film by its popularity, then distinct others.

    The curves are assumed: the first film gets 0.34 % of the ratings and the first tenth 80 %; a user rates 68 films in
    the median, 144 on average.
    """
    rank = np.arange(1, sizes.items + 1)
    items = Popularity(rank**-0.3 * np.exp(-rank / (0.088 * sizes.items)))
    users = Popularity.lognormal(sizes.users, median=68, sigma=1.23, lo=20, hi=9254)
    return queries(sizes, rng, users, items)


def queries(sizes: Sizes, rng: np.random.Generator, users: Popularity, items: Popularity) -> Iterator[Sample]:
    """Draw a user and a film by their popularity, and other films of which none comes twice."""
    while True:
        film = items.draw(rng, 1)
        others = rng.choice(sizes.items - 1, sizes.candidates - 1, replace=False)
        others += others >= film  # skips the film itself
        yield {"user": users.draw(rng, 1), "items": np.concatenate([film, others]).astype(np.int32)}


def hit_rate_query(user: int, history: npt.NDArray[np.int64], sizes: Sizes) -> Sample:
    """Make the query of a user: the film they rated last, then others that they never rated; ids count from 0.

    Leave-one-out by time (He et al. 2017, section 4.1).
    """
    unrated = np.ones(sizes.items, bool)
    unrated[history] = False
    rng = np.random.default_rng([NEGATIVES_SEED, user])
    negatives = rng.choice(np.flatnonzero(unrated), sizes.candidates - 1, replace=False)
    items = np.concatenate([history[-1:], negatives])
    return {"user": np.array([user], np.int32), "items": items.astype(np.int32)}


def leave_one_out(histories: Sequence[tuple[int, npt.NDArray[np.int64]]], sizes: Sizes) -> LabelledSet:
    """The users' queries; the film that was held out is the first candidate."""
    return LabelledSet.of(histories, lambda user, history: Example((hit_rate_query(user, history, sizes),), HELD_OUT))


def labelled(path: Path) -> LabelledSet:
    """Make the HR@10 query of each MovieLens-20M user: the film they rated last, then 999 they never rated.

    Raises InputDataError.
    """
    return leave_one_out(list(ml_20m.histories(path)), FULL)


TITLE = "Neural collaborative filtering (NeuMF)"
recommender = partial(
    define,
    task="recommendation",
    inputs=lambda sizes: (Tensor("user", "INT32", (1,)), Tensor("items", "INT32", (sizes.candidates,))),
    outputs=lambda sizes: (Tensor("scores", "FP32", (sizes.candidates,)),),
    max_batch=128,
    slo=Slo(99, 10),
    citation="He et al. 2017, Neural Collaborative Filtering, WWW (arXiv:1708.05031)",
    locustfile="recommendation",
    build=build,
)
"""Describes a NeuMF on a data set's films."""

FULL, TINY = Sizes(), Sizes(users=50, items=80, factors=8, layers=(16, 16, 8), candidates=20)

WORKLOAD = recommender(
    "ncf",
    TITLE,
    suites=("AIBench DC-AI-C10",),
    origin="MLPerf v0.5's network with AIBench's own configuration (MovieLens-20M, 999 negatives). The target 63.5 % "
    "is MLPerf's for this data set.",
    full=Variant(FULL, parameters=31_832_577, flops=1000 * 213_248),
    tiny=Variant(TINY, parameters=2_505, flops=16_000),
    quality=Quality("HR@10", 0.635, "MovieLens-20M, leave the latest rating out, rank it against 999 unrated films"),
    samples=samples,
    dataset=ml_20m.KEY,
    labelled=labelled,
)
