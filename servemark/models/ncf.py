"""Neural collaborative filtering: one user, a list of films to score (AIBench DC-AI-C10).

He et al. 2017, "Neural Collaborative Filtering" (WWW): NeuMF in the shape of the MLPerf Training v0.5 reference, on
MovieLens-100K. The served form is the ranking query of the HR@10 protocol (1 held-out film and 99 others); the pair
form (one user, one film) is the same network with a list of one and is not served apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from servemark.datasets import ml_100k
from servemark.models.blocks.weights import seeded
from servemark.models.synthesis.popularity import Popularity
from servemark.workload import Example, LabelledSet, Quality, Sample, Slo, Tensor, Variant, define

if TYPE_CHECKING:
    from torch import nn

EMBEDDING_STD = 1.0
"""The paper's N(0, 0.01) is for training: untrained it leaves every score at 0.5, which would hide a wrong engine."""
NEGATIVES_SEED = 0
HELD_OUT = 0
"""Place of the held-out film among the candidates."""


@dataclass(frozen=True)
class Sizes:
    """NeuMF's vocabularies and widths, and how many films one request ranks."""

    users: int = ml_100k.USERS
    items: int = ml_100k.ITEMS
    factors: int = 64
    layers: tuple[int, ...] = (256, 256, 128, 64)
    candidates: int = 100


def network(sizes: Sizes) -> "nn.Module":
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


def build(name: str, sizes: Sizes) -> "nn.Module":
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
    """Draw HR@10-like queries: a film by its popularity, then distinct others; curves fitted to MovieLens-100K."""
    rank = np.arange(1, sizes.items + 1)
    scale = sizes.items / ml_100k.ITEMS
    items = Popularity(rank**-0.15 * np.exp(-rank / (390 * scale)))
    users = Popularity.lognormal(sizes.users, median=71.5, sigma=0.88, lo=20, hi=737)
    while True:
        film = items.draw(rng, 1)
        others = rng.choice(sizes.items - 1, sizes.candidates - 1, replace=False)
        others += others >= film  # skips the film itself
        yield {"user": users.draw(rng, 1), "items": np.concatenate([film, others]).astype(np.int32)}


def labelled(path: Path) -> LabelledSet:
    """The same queries; the film that was held out is the first candidate. Raises InputDataError."""
    queries = list(read(path))
    return LabelledSet(len(queries), lambda index: Example((queries[index],), HELD_OUT))


def read(path: Path) -> Iterator[Sample]:
    """Make the HR@10 query of each MovieLens-100K user: the film they rated last, then 99 they never rated.

    Leave-one-out by time, ratings of the same second in the order of the file (He et al. 2017, section 4.1). Ids count
    from 0. Raises InputDataError.
    """
    rng = np.random.default_rng(NEGATIVES_SEED)
    sizes = Sizes()
    for user, history in ml_100k.read(path).histories():
        unrated = np.setdiff1d(np.arange(1, sizes.items + 1), history)
        negatives = rng.choice(unrated, sizes.candidates - 1, replace=False)
        items = np.concatenate([history[-1:], negatives]) - 1
        yield {"user": np.array([user - 1], np.int32), "items": items.astype(np.int32)}


TINY = Sizes(users=50, items=80, factors=8, layers=(16, 16, 8), candidates=20)

WORKLOAD = define(
    "ncf",
    "Neural collaborative filtering (NeuMF)",
    full=Variant(Sizes(), parameters=611_073, flops=100 * 213_248),
    tiny=Variant(TINY, parameters=2_505, flops=16_000),
    task="recommendation",
    suites=("AIBench DC-AI-C10",),
    inputs=lambda sizes: (Tensor("user", "INT32", (1,)), Tensor("items", "INT32", (sizes.candidates,))),
    outputs=lambda sizes: (Tensor("scores", "FP32", (sizes.candidates,)),),
    max_batch=128,
    slo=Slo(99, 10),
    quality=Quality("HR@10", 0.635, "MovieLens-100K, leave the latest rating out, rank it against 99 unrated films"),
    citation="He et al. 2017, Neural Collaborative Filtering, WWW (arXiv:1708.05031)",
    locustfile="recommendation",
    build=build,
    samples=samples,
    dataset="ml-100k",
    read=read,
    labelled=labelled,
)
