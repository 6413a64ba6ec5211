"""DeepBench's sizes (Baidu Research, github.com/baidu-research/DeepBench, commit da81ba7): training, server and device.

`sizes/deepbench/` holds its tables as they are in its code, `code/kernels/*.h`. A size that stands there twice is
measured once. Where its spreadsheets, `DeepBenchKernels_*.xlsx`, differ from its code, both are cases and say so:

- sparse products: 7860 rows in the code, 7680 in the spreadsheet;
- gradients of some first layers, and the two largest all-reduces: in the code alone.

DeepBench's recurrent layers skip the product of the input, which PyTorch's do. Its vanilla cell is ReLU, ours is tanh.
"""

import csv
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from kernels.measurement.case import Case, once
from kernels.measurement.kernel import Kernel, Size, make_kernel
from servemark.results.schema.kernels import Published

TABLES = Path(__file__).parent / "sizes" / "deepbench"
PUBLISHED = Path(__file__).parent / "sizes" / "published" / "deepbench.csv"
DIRECTIONS = {"fwd": "forward", "bwd_inputs": "backward_data", "bwd_params": "backward_weights"}
Row = dict[str, str]


def rows(table: str) -> list[Row]:
    """A table as it is in the package."""
    with (TABLES / f"{table}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def training() -> list[Case]:
    """Products, convolutions and recurrent layers with both gradients, and all-reduce."""
    directions = list(DIRECTIONS.values())
    recurrent = [case for direction in directions for case in _recurrent("rnn_train", direction)]
    return once([*_gemm("gemm_train"), *_convolution("conv_train"), *recurrent, *_all_reduce()])


def inference(where: str) -> list[Case]:
    """Inference on a server, or on a device in the hand."""
    return once(
        [
            *_gemm(f"gemm_inference_{where}"),
            *_convolution(f"conv_inference_{where}"),
            *_recurrent(f"rnn_inference_{where}", "forward"),
            *_sparse(f"sparse_gemm_inference_{where}"),
        ]
    )


def _gemm(table: str) -> Iterator[Case]:
    for row in rows(table):
        sizes: dict[str, Size] = {name: int(row[name]) for name in "mnk"}
        transposed = {name: row[name] == "1" for name in ("a_t", "b_t")}
        yield Case.of("gemm", f"DeepBench, {row['app']}", **sizes, **transposed)


def _convolution(table: str) -> Iterator[Case]:
    for row in rows(table):
        sizes: dict[str, Size] = {name: int(row[name]) for name in "nck"}
        sizes |= {"size": (int(row["h"]), int(row["w"]))}
        for ours, theirs in (("filter", "filter"), ("padding", "pad"), ("stride", "stride")):
            sizes[ours] = (int(row[f"{theirs}_h"]), int(row[f"{theirs}_w"]))
        for operation in row["ops"].split("|"):
            alone = operation == "bwd_inputs" and row["bwd_inputs_reported"] == "0"
            source = f"DeepBench, {row['app']}{' (code alone)' if alone else ''}"
            yield Case.of("convolution", source, **sizes, direction=DIRECTIONS[operation])


def _recurrent(table: str, direction: str) -> Iterator[Case]:
    for row in rows(table):
        sizes = {name: int(row[name]) for name in ("hidden", "batch", "timesteps")}
        yield Case.of("recurrent", f"DeepBench, {row['app']}", cell=row["type"], **sizes, direction=direction)


def _sparse(table: str) -> Iterator[Case]:
    for row in rows(table):
        sizes = {"n": int(row["n"]), "k": int(row["k"]), "sparsity": float(row["sparsity"])}
        if row["m"] == row["m_spec"]:
            yield Case.of("sparse_gemm", "DeepBench", m=int(row["m"]), **sizes)
        else:
            yield Case.of("sparse_gemm", "DeepBench (code)", m=int(row["m"]), **sizes)
            yield Case.of("sparse_gemm", "DeepBench (spreadsheet)", m=int(row["m_spec"]), **sizes)


def _all_reduce() -> Iterator[Case]:
    for row in rows("allreduce"):
        source = "DeepBench" if row["in_kernels_xlsx"] == "1" else "DeepBench (code alone)"
        yield Case.of("all_reduce", source, length=int(row["floats"]), ranks=int(row["ranks"]))


def published() -> dict[Kernel, list[Published]]:
    """Its published figures by kernel: 22 of its results' spreadsheets, with their hardware and defects."""
    found: dict[Kernel, list[Published]] = {}
    with PUBLISHED.open(newline="") as file:
        for row in csv.DictReader(file):
            figure: Published = {
                "hardware": row["hardware"],
                "precision": row["precision"],
                "ms": float(row["ms"]),
                "rate": float(row["rate"]),
                "unit": row["unit"],
                "file": row["file"],
                "note": row["note"],
            }
            found.setdefault(make_kernel(row["family"], json.loads(row["sizes"])), []).append(figure)
    return found


SUITES: dict[str, Callable[[], list[Case]]] = {
    "deepbench-train": training,
    "deepbench-server": partial(inference, "server"),
    "deepbench-device": partial(inference, "device"),
}
