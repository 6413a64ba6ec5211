"""Tensors whose size varies from request to request: batches of them, their export, their requests and answers."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import exporters
from exporters.pipeline.job import Job
from exporters.pipeline.registry import exporter
from loadgen.kserve.http_messages import ResponseChecker
from loadgen.transport.http1_head import parse_head
from servemark.errors import ArtifactError
from servemark.repository.entry import Entry
from servemark.workload import Sample, Tensor, Workload, get, stack
from tests.support.exporting import FROM_TORCH, exports_by, variant

X, N, Y = Tensor("x", "FP32", (2, -1)), Tensor("n", "INT32", (1,)), Tensor("y", "FP32", (-1,))


class Weighted(nn.Module):
    """[B, 2, T] -> [B, T]."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[2.0], [3.0]]))

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return (x * self.weight).sum(dim=1) + n


def samples(rng: np.random.Generator) -> Iterator[Sample]:
    while True:
        size = int(rng.integers(3, 6))
        yield {"x": rng.random((2, size), np.float32), "n": np.array([size], np.int32)}


def workload(**changes: Any) -> Workload:
    tensors: dict[str, Any] = {
        "inputs": (X, N),
        "outputs": (Y,),
        "build": lambda: Weighted().eval(),
        "samples": samples,
    }
    return replace(get("ncf_tiny"), name="weighted", parameters=2, **(tensors | changes))


def test_a_size_of_minus_one_fits_any() -> None:
    assert X.fits((2, 7))
    assert X.fits([2, 1])
    assert not X.fits((3, 7))
    assert not X.fits((2,))
    assert not X.fits((2, 7, 1))
    assert (X.variable_axes, N.variable_axes, Y.variable_axes) == ((2,), (), (1,))


def test_shorter_samples_of_a_batch_are_padded_with_zeros() -> None:
    short: Sample = {"x": np.ones((2, 1), np.float32), "n": np.array([1], np.int32)}
    long: Sample = {"x": np.full((2, 3), 2, np.float32), "n": np.array([3], np.int32)}
    batch = stack([short, long], (X, N))
    assert batch["x"].tolist() == [[[1, 0, 0], [1, 0, 0]], [[2, 2, 2], [2, 2, 2]]]
    assert batch["n"].tolist() == [[1], [3]]


@pytest.mark.parametrize("engine", FROM_TORCH)
def test_an_artifact_takes_any_size_and_golden_samples_share_one(tmp_path: Path, engine: str) -> None:
    exporters.export(workload(), engine, tmp_path)
    entry = Entry(tmp_path, "weighted", engine)
    assert "dims: [ 2, -1 ]" in entry.config.read_text()
    golden = entry.read_golden()
    assert golden is not None
    size = golden.inputs["x"].shape[2]
    assert golden.inputs["x"].shape == (16, 2, size)
    assert golden.outputs["y"].shape == (16, size)
    assert (golden.inputs["n"] == size).all()
    run = exporter(engine).load(next(entry.version.iterdir()), workload())
    for rows, length in ((1, 1), (3, 40)):
        x, n = np.random.default_rng(0).random((rows, 2, length), np.float32), np.ones((rows, 1), np.int32)
        found = np.asarray(run({"x": x, "n": n})["y"], np.float32)
        np.testing.assert_allclose(found, 2 * x[:, 0] + 3 * x[:, 1] + 1, rtol=1e-5)


@pytest.mark.parametrize("engine", FROM_TORCH)
def test_an_artifact_that_fixes_the_size_is_refused(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = exporter(engine)

    def write(job: Job) -> Any:
        """Trace as if the interface named the example's size."""
        size = job.example["x"].shape[2]
        job.workload = workload(inputs=(replace(X, shape=(2, size)), N))
        return real.write(job)

    exports_by(monkeypatch, variant(real, write=write))
    with pytest.raises(ArtifactError, match="cannot run a batch"):
        exporters.export(workload(), engine, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        ([2, 5], None),
        ([2, 1], None),
        ([2, 0], None),
        ([3, 5], "wrong_shape"),
        ([2], "wrong_shape"),
        ([2, 5, 1], "wrong_shape"),
        ([2, "5"], "wrong_shape"),
        ([2, -1], "wrong_shape"),
        ([], "wrong_shape"),
        (None, "wrong_shape"),
    ],
)
def test_answers_may_have_any_size_where_it_varies(shape: Any, error: str | None) -> None:
    size = 4 * int(np.prod([n for n in shape or [0] if isinstance(n, int)]))
    output = {"name": "y", "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": abs(size)}}
    text = json.dumps({"outputs": [output]}).encode()
    head = parse_head(
        b"HTTP/1.1 200 OK\r\n"
        + f"Content-Length: {len(text) + abs(size)}\r\nInference-Header-Content-Length: {len(text)}".encode()
    )
    assert ResponseChecker([Y], batch_size=2).judge(head, text + bytes(abs(size))) == error
