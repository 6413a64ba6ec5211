"""DLRM-v2: will this user click this advertisement (MLPerf Inference).

Naumov et al. 2019, "Deep Learning Recommendation Model for Personalization and Recommendation Systems", with the cross
network of low rank of Wang et al. 2021, "DCN V2" (WWW), as MLPerf's reference has it: 13 numbers through dense layers,
26 tables from which several rows each are added up, three cross layers of rank 512, and five dense layers. The
reference takes ids modulo 40,000,000 rows. Here it is modulo 300,000, so that the tables have 2,521,198 of 204,184,588
rows, 1.2 %, and 1.3 of 104.5 GB. All other sizes and all operations are the reference's; caches serve more of the rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from servemark.datasets import criteo
from servemark.errors import InputDataError
from servemark.models.blocks.weights import centre, drawn, he, seeded
from servemark.models.synthesis.popularity import Popularity
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

NUMBERS = 13
"""Of Criteo's log: how often something happened."""
ROWS = (
    40_000_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 40_000_000, 3_067_956, 405_282, 10, 2_209, 11_938,
    155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108, 36,
)  # fmt: skip
"""Of the reference's tables: one for each kind of id in Criteo's log."""
IDS = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)
"""Rows that a request takes of each table."""
CALIBRATION_SAMPLES = 64


@dataclass(frozen=True)
class Sizes:
    """Largest table, rows of a request in each, width of a row, and the layers."""

    most_rows: int = 300_000
    ids: tuple[int, ...] = IDS
    width: int = 128
    dense: tuple[int, ...] = (512, 256, 128)
    crosses: int = 3
    rank: int = 512
    top: tuple[int, ...] = (1024, 1024, 512, 256)
    rows: tuple[int, ...] = field(init=False)
    """Of each table."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(min(rows, self.most_rows) for rows in ROWS))


def network(sizes: Sizes) -> Module:
    """Define it: (numbers [B, 13], ids [B, 214] of all tables, one after the other) -> ctr [B, 1]."""
    import torch
    from torch import nn

    interacting = (len(sizes.rows) + 1) * sizes.width

    def layers(*widths: int) -> nn.Sequential:
        return nn.Sequential(*(each for a, b in pairwise(widths) for each in (nn.Linear(a, b), nn.ReLU())))

    class Cross(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.Linear(interacting, sizes.rank, bias=False)
            self.up = nn.Linear(sizes.rank, interacting)

        def forward(self, first: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            crossed: torch.Tensor = first * self.up(self.down(x)) + x
            return crossed

    class Dlrm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(rows, sizes.width) for rows in sizes.rows)
            self.dense = layers(NUMBERS, *sizes.dense)
            self.crosses = nn.ModuleList(Cross() for _ in range(sizes.crosses))
            self.top = layers(interacting, *sizes.top)
            self.head = nn.Linear(sizes.top[-1], 1)

        def interact(self, numbers: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
            bags = torch.split(ids.long(), list(sizes.ids), dim=1)
            rows = [table(bag).sum(dim=1) for table, bag in zip(self.tables, bags, strict=True)]
            first = x = torch.cat([self.dense(numbers), *rows], dim=1)
            for cross in self.crosses:
                x = cross(first, x)
            hidden: torch.Tensor = self.top(x)
            return hidden

        def forward(self, numbers: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(self.head(self.interact(numbers, ids)))

    return Dlrm()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network, sums of rows of the order of 1, and spread its answers over the requests."""
    import torch
    from torch import nn

    batch = drawn(samples(sizes, np.random.default_rng(0)), CALIBRATION_SAMPLES)
    with seeded(name), torch.no_grad():
        model: Any = network(sizes).eval()
        he(model)
        for table, ids in zip(model.tables, sizes.ids, strict=True):
            nn.init.normal_(table.weight, std=ids**-0.5)
        for cross in model.crosses:
            nn.init.xavier_normal_(cross.down.weight)
            nn.init.xavier_normal_(cross.up.weight)
        centre(model.head, model.head(model.interact(*batch)))
    built: Module = model
    return built


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw impressions: numbers as logarithms of counts, some of them missing, and ids by popularity.

    The distributions are our choice: Criteo's counts have long tails, and few of its ids make up most impressions.
    """
    tables = [Popularity.zipf(rows, s=1.05) for rows in sizes.rows]
    while True:
        counts = np.floor(rng.lognormal(1.0, 1.5, NUMBERS)) * (rng.random(NUMBERS) > 0.2)
        ids = [table.draw(rng, count) for table, count in zip(tables, sizes.ids, strict=True)]
        yield {"numbers": np.log1p(counts).astype(np.float32), "ids": np.concatenate(ids)}


def labelled(path: Path) -> LabelledSet:
    """Read the impressions of Criteo's log. Raises InputDataError."""
    log = criteo.read(path)
    found = tuple(ids.shape[1] for ids in log.ids)
    if found != FULL.ids:
        raise InputDataError(f"{path}: the fields have {found} ids, not {FULL.ids}", fix=criteo.FIX)
    return LabelledSet(len(log), lambda row: Example((_impression(log, row),), int(log.clicks[row])))


def _impression(log: criteo.Log, row: int) -> Sample:
    ids = [field[row] % rows for field, rows in zip(log.ids, FULL.rows, strict=True)]
    return {"numbers": np.array(log.numbers[row]), "ids": np.concatenate(ids).astype(np.int32)}


FULL = Sizes()
TINY = Sizes(
    most_rows=50, ids=tuple(min(ids, 4) for ids in IDS), width=8, dense=(32, 16, 8), crosses=2, rank=16, top=(32, 16)
)

WORKLOAD = define(
    "dlrm_v2",
    "DLRM-v2",
    full=Variant(FULL, parameters=338_757_889, flops=32_060_928),
    tiny=Variant(TINY, parameters=31_793, flops=44_640),
    task="click-through rate",
    suites=("MLPerf Inference v6.0",),
    inputs=lambda sizes: (Tensor("numbers", "FP32", (NUMBERS,)), Tensor("ids", "INT32", (sum(sizes.ids),))),
    outputs=lambda _: (Tensor("ctr", "FP32", (1,)),),
    max_batch=2048,
    slo=Slo(99, 60),
    quality=Quality("AUC", 0.8031, "Criteo's terabyte of logs, the first half of day 23"),
    citation="Naumov et al. 2019, Deep Learning Recommendation Model for Personalization (arXiv:1906.00091)",
    origin="MLPerf Inference's reference with 1.2 % of the rows; 80.31 % AUC is its trained weights'. A query of the "
    "benchmark asks for 100 to 700 of such answers at once.",
    locustfile="ctr",
    build=build,
    samples=samples,
    dataset=criteo.KEY,
    labelled=labelled,
)
