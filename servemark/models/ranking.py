"""Ranking: next-item recommendation over the whole catalogue (AIBench DC-AI-C16).

Tang & Wang 2018, "Ranking Distillation: Learning Compact Ranking Models With High Performance for Recommender System"
(KDD). The student is served; its backbone is Caser: Tang & Wang 2018, "Personalized Top-N Sequential Recommendation
via Convolutional Sequence Embedding" (WSDM). Sizes are those of the authors' split of the Gowalla check-ins: 13,149
users and 14,007 items beside the padding. AIBench's log of its own run counts 5,583,500 parameters in the teacher,
`ranking_teacher`, which only these sizes give.

All items are scored. Without that product a request is 75,000 FLOPs; AIBench gives learning to rank 0.09 million, which
is the teacher's 85,000 multiply-adds.

Gowalla's split is read where `--input-data` names its folder. MovieLens-100K, which can be fetched, stands in for it:
its films reach 1,682 of the 14,008 rows of the items' table, and it gives no precision of this model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from servemark.datasets import gowalla, ml_100k
from servemark.errors import InputDataError
from servemark.models.blocks.weights import seeded
from servemark.models.synthesis.popularity import Popularity
from servemark.workload import Agreement, Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

LENGTH = 5  # the last items of a user's history
TOP = 10
USER_STD, SIGMOID_GAIN = 0.5, 4.0
"""With torch's defaults (1 and 1) an untrained Caser hardly looks at the history."""
NEIGHBOUR_SHARE, NEIGHBOUR_RANKS = 0.3, 20
"""Consecutive check-ins are places near each other: this share of the items lies within these ranks of the last one."""


@dataclass(frozen=True)
class Sizes:
    """Caser's vocabularies and widths; item id 0 is the padding of short histories."""

    users: int = 13_149
    items: int = 14_008
    width: int = 50
    horizontal: int = 16
    vertical: int = 2


def network(sizes: Sizes) -> Module:
    """Define Caser over the catalogue: (user [B, 1], seq [B, 5]) -> (items [B, 10], scores [B, 10]), best first."""
    import torch
    from torch import nn

    class Caser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.user_embedding = nn.Embedding(sizes.users, sizes.width)
            self.item_embedding = nn.Embedding(sizes.items, sizes.width, padding_idx=0)
            self.vertical = nn.Conv2d(1, sizes.vertical, (LENGTH, 1))
            self.horizontal = nn.ModuleList(
                nn.Conv2d(1, sizes.horizontal, (height, sizes.width)) for height in range(1, LENGTH + 1)
            )
            self.dense = nn.Linear(sizes.vertical * sizes.width + LENGTH * sizes.horizontal, sizes.width)
            self.catalogue = nn.Linear(2 * sizes.width, sizes.items)

        def forward(self, user: torch.Tensor, seq: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            user, seq = user.long(), seq.long()
            history = self.item_embedding(seq).unsqueeze(1)  # [B, 1, 5, width]
            features = [self.vertical(history).flatten(1)]
            features += [convolution(history).amax(dim=(2, 3)) for convolution in self.horizontal]
            taste = torch.sigmoid(self.dense(torch.cat(features, dim=1)))
            query = torch.cat([taste, self.user_embedding(user).squeeze(1)], dim=1)
            scores: torch.Tensor = self.catalogue(query)
            known = torch.cat([seq, torch.zeros_like(seq[:, :1])], dim=1)  # the history and the padding id
            scores, items = scores.scatter(1, known, -torch.inf).topk(TOP, dim=1)
            return items.int(), scores

    return Caser()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network, its weights balanced so that the top 10 depends on the user and on the history."""
    import torch
    from torch import nn

    with seeded(name), torch.no_grad():
        model = network(sizes)
        nn.init.normal_(model.get_parameter("user_embedding.weight"), std=USER_STD)
        nn.init.xavier_normal_(model.get_parameter("dense.weight"), gain=SIGMOID_GAIN)
    return model.eval()


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw histories with the popularity measured on the public Gowalla test split, from users as active as there."""
    users = Popularity.lognormal(sizes.users, median=5, sigma=0.857, lo=3, hi=152)
    items = Popularity.zipf(sizes.items - 1, s=0.6, first_id=1)
    while True:
        ranks = items.draw_ranks(rng, LENGTH)
        near = rng.random(LENGTH) < NEIGHBOUR_SHARE
        steps = rng.integers(-NEIGHBOUR_RANKS, NEIGHBOUR_RANKS + 1, LENGTH)
        for i in range(1, LENGTH):
            if near[i]:
                ranks[i] = np.clip(ranks[i - 1] + steps[i], 0, len(items) - 1)
        yield {"user": users.draw(rng, 1), "seq": items.ids(ranks)}


def read(path: Path, sizes: Sizes) -> Iterator[Sample]:
    """Make one request of each user: the last five items, oldest first, left-padded with 0.

    `path` holds Gowalla's check-ins, or MovieLens-100K, whose users become rows n - 1 and whose films keep their ids.
    Raises InputDataError, also for ids beyond the model's tables.
    """
    if gowalla.is_here(path):
        histories: Iterator[tuple[int, Sequence[int]]] = gowalla.histories(path)
    else:
        histories = ((user - 1, films.tolist()) for user, films in ml_100k.read(path).histories())
    for user, history in histories:
        last = history[-LENGTH:]
        if user >= sizes.users or max(last) >= sizes.items:
            raise InputDataError(
                f"{path}: user {user}, items {list(last)} lie beyond the model's {sizes.users} and {sizes.items}",
                fix="use the data set's published split",
            )
        seq = np.zeros(LENGTH, np.int32)
        seq[LENGTH - len(last) :] = last
        yield {"user": np.array([user], np.int32), "seq": seq}


def labelled(path: Path, sizes: Sizes) -> LabelledSet:
    """Gowalla's users with what they chose later; MovieLens-100K has no such split. Raises InputDataError."""
    if not gowalla.is_here(path):
        raise InputDataError(
            f"{path} holds no {gowalla.FILE}: MovieLens-100K stands in for requests, and has no labels of this model",
            fix="lay Gowalla's split out, and name it: --input-data PATH",
        )
    later = gowalla.chosen_later(path)
    users = [(request, later[number]) for number, request in enumerate(read(path, sizes)) if number in later]
    return LabelledSet.of(users, lambda request, chosen: Example((request,), chosen))


ranker = partial(
    define,
    task="learning to rank",
    inputs=lambda _: (Tensor("user", "INT32", (1,)), Tensor("seq", "INT32", (LENGTH,))),
    outputs=lambda _: (Tensor("items", "INT32", (TOP,)), Tensor("scores", "FP32", (TOP,))),
    max_batch=128,
    slo=Slo(99, 10),
    quality=Quality(
        "precision@k", 0.1458, "Gowalla test split; AIBench's code prints k 3, 5 and 10, its report names no k"
    ),
    citation="Tang & Wang 2018, Ranking Distillation, KDD (arXiv:1809.07428)",
    locustfile="ranking",
    build=build,
    samples=samples,
    dataset=ml_100k.KEY,
    read=partial(read, sizes=Sizes()),
    labelled=partial(labelled, sizes=Sizes()),
    # neighbouring scores can lie closer together than two engines' rounding; then two ids swap places
    agreement=Agreement(min_match=0.95),
)
"""Describes a Caser over Gowalla's catalogue."""

WORKLOAD = ranker(
    "ranking",
    "Ranking distillation student (Caser)",
    suites=("AIBench DC-AI-C16",),
    origin="The authors' student, of width 50, which AIBench's report describes. AIBench's own code trained the "
    "teacher of width 100 (`ranking_teacher`) where it was profiled; the report does not say whose 14.58 % is.",
    full=Variant(Sizes(), parameters=2_793_800, flops=2_876_600),
    tiny=Variant(Sizes(users=50, items=80, width=8, horizontal=2, vertical=1), parameters=2_808, flops=4_048),
)
