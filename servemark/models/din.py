"""Deep Interest Network: will this user click this item, given what they looked at before (AI Matrix).

Zhou et al. 2018, "Deep Interest Network for Click-Through Rate Prediction" (KDD), in the sigmoid form of the authors'
demo that AI Matrix runs: head input [u, i], attention scores masked before they are scaled, BatchNorm at its initial
statistics. The demo's user table feeds no output and is left out. Sizes are those of Amazon Electronics (5-core).
Histories are padded to 100 products, so that requests can be joined; the demo pads to the longest of its batch, which
is less work. Each product's category is drawn from the seed, as the weights are, also where real data are read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import numpy.typing as npt

from servemark.datasets import amazon_electronics
from servemark.errors import InputDataError
from servemark.models.blocks.weights import seeded
from servemark.models.synthesis.popularity import Lengths, Popularity
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

if TYPE_CHECKING:
    import torch

SIGMOID_GAIN = 4.0
"""The inverse of the sigmoid's slope at 0. With gain 1 an untrained DIN hardly looks at the history."""
POSITIVE_SHARE = 0.5  # of the test pairs, one click to one item the user never reviewed
SHORTEST = 4
"""Every user of the 5-core set has five reviews at least, and the last one is what is asked for."""


@dataclass(frozen=True)
class Sizes:
    """DIN's vocabularies, the width of one embedding and the longest history."""

    items: int = 63_001
    categories: int = 801
    width: int = 64
    history: int = 100


def network(sizes: Sizes, category_of: "torch.Tensor") -> Module:
    """Define DIN: (item [B, 1], hist [B, H], hist_len [B, 1] >= 1) -> ctr [B, 1]; `category_of` maps the items."""
    import torch
    from torch import nn

    width = 2 * sizes.width  # [item ; category]

    class Perceptron(nn.Sequential):
        def __init__(self, inputs: int) -> None:
            super().__init__(nn.Linear(inputs, 80), nn.Sigmoid(), nn.Linear(80, 40), nn.Sigmoid(), nn.Linear(40, 1))

    class Din(nn.Module):
        category_of: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.item_embedding = nn.Embedding(sizes.items, sizes.width)
            self.category_embedding = nn.Embedding(sizes.categories, sizes.width)
            self.item_bias = nn.Embedding(sizes.items, 1)
            self.attention = Perceptron(4 * width)
            self.interest = nn.Sequential(nn.BatchNorm1d(width, eps=1e-3), nn.Linear(width, width))
            self.norm = nn.BatchNorm1d(2 * width, eps=1e-3)
            self.head = Perceptron(2 * width)
            self.register_buffer("category_of", category_of)

        def embed(self, item: torch.Tensor) -> torch.Tensor:
            category = self.category_of[item].long()
            return torch.cat([self.item_embedding(item), self.category_embedding(category)], dim=-1)

        def forward(self, item: torch.Tensor, hist: torch.Tensor, hist_len: torch.Tensor) -> torch.Tensor:
            item, hist = item.long(), hist.long()
            keys, query = self.embed(hist), self.embed(item)  # [B, H, width], [B, 1, width]
            queries = query.expand_as(keys)
            scores = self.attention(torch.cat([queries, keys, queries - keys, queries * keys], dim=2))  # [B, H, 1]
            beyond = torch.arange(sizes.history, device=hist.device) >= hist_len  # [B, H]
            # the demo writes -2^32 + 1, which half precision cannot hold; after the softmax both are exactly 0
            scores = scores.squeeze(2).masked_fill(beyond, torch.finfo(scores.dtype).min)
            weights = torch.softmax(scores / width**0.5, dim=1)
            interest = self.interest(torch.bmm(weights.unsqueeze(1), keys).squeeze(1))
            features = self.norm(torch.cat([interest, query.squeeze(1)], dim=1))
            return torch.sigmoid(self.head(features) + self.item_bias(item).squeeze(2))

    return Din()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network, its weights wide enough that the prediction depends on the history and its length."""
    import torch
    from torch import nn

    categories = np.random.default_rng(crc32(name.encode())).integers(sizes.categories, size=sizes.items)
    with seeded(name):
        model = network(sizes, torch.from_numpy(categories.astype(np.int32)))
        for module in model.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_normal_(module.weight, gain=SIGMOID_GAIN)
                nn.init.zeros_(module.bias)
    return model.eval()


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw test pairs as in Amazon Electronics 5-core: histories of 8 items on average, half of the items clicked.

    The popularity is a fit of ours. Its flat head gives the first product 0.3 % of the reviews; Zipf's law gave it 2.4.
    """
    popularity = Popularity.zipf(sizes.items, s=0.8, q=15)
    lengths = Lengths(min(8, sizes.history / 2), 0.75, SHORTEST, sizes.history)
    while True:
        length = lengths.draw(rng)
        hist = np.zeros(sizes.history, np.int32)
        hist[:length] = popularity.draw(rng, length)
        clicked = rng.random() < POSITIVE_SHARE
        item = int(popularity.draw(rng, 1)[0]) if clicked else _never_reviewed(rng, sizes, hist[:length].tolist())
        yield _request(item, hist, length)


def _never_reviewed(rng: np.random.Generator, sizes: Sizes, products: Sequence[int]) -> int:
    """Draw a product until it is none of these, as DIN's code does."""
    while True:
        product = int(rng.integers(sizes.items))
        if product not in products:
            return product


def _request(item: int, hist: npt.NDArray[np.int32], length: int) -> Sample:
    return {"item": np.array([item], np.int32), "hist": hist, "hist_len": np.array([length], np.int32)}


def labelled(path: Path) -> LabelledSet:
    """Make two requests of each Amazon Electronics user: the last product they reviewed, and one they never did.

    The history is what they reviewed before, its last 100 products. Raises InputDataError, also for products beyond
    the model's table.
    """
    sizes, rng, pairs = Sizes(), np.random.default_rng(0), []
    for products in amazon_electronics.histories(path):
        if max(products) >= sizes.items:
            raise InputDataError(
                f"{path}: product {max(products)} lies beyond the model's {sizes.items}",
                fix="use the 5-core Electronics set",
            )
        *before, last = products
        if not before:
            continue
        seen = before[-sizes.history :]
        hist = np.zeros(sizes.history, np.int32)
        hist[: len(seen)] = seen
        asked = (last, _never_reviewed(rng, sizes, products))
        pairs.append(tuple(_request(item, hist, len(seen)) for item in asked))
    return LabelledSet(len(pairs), lambda index: Example(pairs[index], (1, 0)), requests_per_example=2)


TINY = Sizes(items=500, categories=20, width=8, history=10)

WORKLOAD = define(
    "din",
    "Deep Interest Network",
    # of histories of 100 products, and of 8
    full=Variant(Sizes(), parameters=4_231_771, flops=8_945_808, flops_without_padding=789_456),
    tiny=Variant(TINY, parameters=19_430, flops=179_632, flops_without_padding=95_872),  # of 10, and of 5
    task="click-through rate",
    suites=("AI Matrix",),
    inputs=lambda sizes: (
        Tensor("item", "INT32", (1,)),
        Tensor("hist", "INT32", (sizes.history,)),
        Tensor("hist_len", "INT32", (1,)),
    ),
    outputs=lambda _: (Tensor("ctr", "FP32", (1,)),),
    max_batch=1024,
    slo=Slo(99, 30),
    quality=Quality("GAUC", None, "Amazon Electronics 5-core, each user's last item left out"),
    citation="Zhou et al. 2018, Deep Interest Network, KDD (arXiv:1706.06978)",
    origin="The authors' demo, which AI Matrix runs with 1 candidate a user in batches of 256, 512 and 1,024. AI "
    "Matrix publishes recommendations a second, and no quality.",
    locustfile="ctr",
    build=build,
    samples=samples,
    dataset=amazon_electronics.KEY,
    labelled=labelled,
)
