"""AI Matrix's sizes (Alibaba, github.com/alibaba/ai-matrix, commit f7e1d77): its grid of products and its layers.

`sizes/ai_matrix/` holds the tables of `layer-based_benchmark/cnn/params`, with the slips that they have (228 channels).
They are layers of AlexNet, GoogLeNet, VGG-16, ResNet and DenseNet, with batches of 64, 10 and 1, without padding.
A size that stands there twice is measured once. Convolutions are channels last, as there; pooling and batch
normalisation are channels first here. The grids of products and of recurrent layers are those of its scripts.
"""

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path

from kernels.measurement.case import Case, once

TABLES = Path(__file__).parent / "sizes" / "ai_matrix"
SOURCE = "AI Matrix"
PRODUCT_SIDES = range(1024, 21505, 4096)
PRODUCT_DEPTHS = range(1024, 17409, 4096)
HIDDEN = range(256, 2561, 256)
RECURRENT_INPUT = 64


def rows(table: str) -> list[dict[str, int]]:
    """A table as it is in the package."""
    with (TABLES / f"{table}.csv").open(newline="") as file:
        return [{name: int(value) for name, value in row.items()} for row in csv.DictReader(file)]


def ai_matrix() -> list[Case]:
    """Products, then layers kind by kind."""
    return once(
        [
            *(Case.of("gemm", SOURCE, m=m, n=m, k=k) for m, k in itertools.product(PRODUCT_SIDES, PRODUCT_DEPTHS)),
            *_convolution(),
            *(Case.of("fully_connected", SOURCE, **row) for row in rows("fc")),
            *(case for kind in ("max", "average") for case in _pooling(kind)),
            *(Case.of("batch_norm", SOURCE, **row) for row in rows("normal")),
            *(case for function in ("relu", "sigmoid", "tanh") for case in _activation(function)),
            *_softmax(),
            *_recurrent(),
        ]
    )


def _convolution() -> Iterator[Case]:
    for row in rows("conv"):
        yield Case.of(
            "convolution",
            SOURCE,
            **{name: row[name] for name in "nck"},
            size=(row["h"], row["w"]),
            filter=(row["filter_h"], row["filter_w"]),
            stride=(row["stride"], row["stride"]),
            layout="NHWC",
        )


def _pooling(kind: str) -> Iterator[Case]:
    """One window moves by two rows and one column: it is taken with the same stride in both."""
    for row in rows("pool"):
        sizes = {name: row[name] for name in ("n", "c", "h", "w", "window")}
        slip = "" if row["stride_h"] == row["stride_w"] else " (stride 2 by 1 there)"
        yield Case.of("pooling", SOURCE + slip, kind=kind, **sizes, stride=row["stride_h"])


def _activation(function: str) -> Iterator[Case]:
    for row in rows("active"):
        yield Case.of("activation", SOURCE, function=function, length=row["n"] * row["h"] * row["w"] * row["c"])


def _softmax() -> Iterator[Case]:
    """Over the channels, which are last there."""
    for row in rows("active"):
        yield Case.of("softmax", SOURCE, rows=row["n"] * row["h"] * row["w"], width=row["c"])


def _recurrent() -> Iterator[Case]:
    for cell, batch, timesteps, hidden in itertools.product(("lstm", "gru", "vanilla"), (16, 32), (32, 64), HIDDEN):
        sizes = {"batch": batch, "timesteps": timesteps, "hidden": hidden, "inputs": RECURRENT_INPUT}
        yield Case.of("recurrent", SOURCE, cell=cell, **sizes)


SUITES = {"ai-matrix": ai_matrix}
