"""`servemark synthesise` as a whole: the file is a workload, the document tells the match, and times stand beside."""

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import exporters
from kernels.tracing.calls import calls_of
from servemark.profiling import measure
from servemark.results.directory import read_as
from servemark.results.schema.suite import Synthesis
from servemark.synthesis import run
from servemark.synthesis.layers import Attention, Convolution, Dense, Embedding, Layer, Norm, Recurrent
from servemark.synthesis.run import found_in, layers_of
from servemark.workload import get
from servemark.workload.registry import WORKLOADS
from tests.support.command_line import Servemark
from tests.support.documents import validated


def export_here(names: Sequence[str], engine: str, repository: Path, precision: str) -> None:
    """Export in this process."""
    for name in names:
        exporters.export(get(name), engine, repository, precision=precision)


def test_a_network_of_tiny_ones_is_made_and_timed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exported: Any, servemark: Servemark
) -> None:
    monkeypatch.setattr(run, "YARDSTICKS", ())
    monkeypatch.setattr(run, "ROUNDS_S", 0.1)
    monkeypatch.setattr(measure, "ROUNDS", (3, 3))
    monkeypatch.setattr(measure, "SECONDS", 0.0)
    monkeypatch.setattr(run, "make", partial(run.make, steps=300))
    monkeypatch.setattr(run, "export_where_needed", export_here)
    for name in ("vgg16_tiny", "resnet20_cifar_tiny", "wgan_tiny"):
        exported(name, "onnxruntime")
    asked = ["synthesise", "vgg16_tiny", "resnet20_cifar_tiny", "--name", "made", "--engines", "onnxruntime"]
    asked += ["--batches", "2,4", "--held-out", "wgan_tiny", "--json", "--report", "--out", str(tmp_path)]
    code, out, err = servemark(*asked, "--model-repository", str(exported.repository))
    assert code == 0, err
    assert str(tmp_path) not in os.environ.get(WORKLOADS, "")  # it is for the timing processes
    shown = validated(json.loads(out))
    [folder] = tmp_path.glob("*-synthesis-made")
    assert shown == read_as(folder, Synthesis)
    assert [each["batch_size"] for each in shown["contexts"]] == [1, 2, 4]
    assert all(each["predicted_ms"] > 0 and each["measured_ms"] > 0 for each in shown["contexts"])
    # the rest of a tiny network's time lies between its operators
    assert 0.1 < sum(each["ours"] for each in shown["shares"]) <= 1.001
    assert -1 <= shown["held_out"][0]["rank_correlation"] <= 1
    assert [each["name"] for each in shown["candidates"]] == ["made"]
    page = (folder / "report.html").read_text()
    assert "Distributions of the layers" in page
    assert "Workloads held out" in page
    code, out, err = servemark("show", str(folder))
    assert code == 0, err
    assert "made: mean distance" in out


@pytest.mark.parametrize(
    ("given", "more", "says"),
    [
        (["reconstruction3d_tiny"], [], "does not have"),
        (["vgg16_tiny"], ["--name", "vgg16"], "built-in workload"),
        (["vgg16_tiny"], ["--held-out", "vgg16_tiny", "--engines", "onnxruntime"], "given and held out"),
        (["vgg16_tiny"], ["--held-out", "wgan_tiny"], "--engines"),
    ],
)
def test_what_cannot_be_made_is_refused(
    given: list[str], more: list[str], says: str, servemark: Servemark, tmp_path: Path
) -> None:
    code, _, err = servemark("synthesise", *given, *more, "--out", str(tmp_path))
    assert code == 3
    assert says in err
    assert not [*tmp_path.iterdir()]


def test_a_decoder_is_layers_with_calls_and_a_tied_output() -> None:
    import torch

    table, inner = nn.Embedding(30, 8), nn.Linear(8, 8)
    ids = torch.arange(4)[None]

    def run() -> object:
        x = table(ids)
        for _ in range(3):
            x = torch.relu(inner(x))
        return nn.functional.linear(x[:, -1], table.weight)

    model = nn.ModuleList([table, inner])
    found = found_in("a", calls_of(run, model.named_parameters()))
    assert found.layers == (
        Embedding(30, 8, 4),
        Dense(4, 8, 8, activation="relu", calls=3),
        Dense(1, 8, 30, tied=True),
    )


def test_an_attention_is_two_products_of_matching_sizes_and_any_other_is_left_out() -> None:
    import torch

    queries, keys = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 7, 4)

    def run() -> object:
        return torch.softmax(queries @ keys.mT, 3) @ keys, queries @ keys.mT

    found = found_in("a", calls_of(run))
    assert found.layers == (Attention(2, 5, 7, 4),)
    product, softmax = 560, 350  # operations
    assert found.left_out == pytest.approx((product + softmax) / (3 * product + softmax))


def test_directions_of_a_recurrent_layer_and_norms_are_layers() -> None:
    import torch

    model = nn.ModuleList([nn.LSTM(6, 5, batch_first=True, bidirectional=True), nn.LayerNorm(10)])
    data = torch.randn(1, 3, 6)
    found = found_in("a", calls_of(lambda: model[1](model[0](data)[0]), model.named_parameters()))
    assert found.layers == (Recurrent("lstm", 3, 6, 5), Recurrent("lstm", 3, 6, 5), Norm(3, 10))


def test_layers_of_a_network_are_told_with_what_is_left_out() -> None:
    found = layers_of("vgg16_tiny")
    convolutions = found.of(Convolution)
    assert len(convolutions) == 13
    assert len(found.of(Dense)) == 3
    assert {layer.kernel for layer in convolutions if isinstance(layer, Convolution)} == {3}
    assert 0 <= found.left_out < 0.2


@pytest.mark.parametrize(
    ("layer", "parameters", "flops", "moved"),
    [
        (Convolution(3, 2, 4, 8, 9), 288, 2 * 288 * 25, 4 * 81 + 288 + 8 * 25),
        (Dense(2, 3, 5, calls=7), 15, 2 * 7 * 2 * 15, 7 * (6 + 15 + 10)),
        (Recurrent("gru", 4, 2, 3), 45, 2 * 4 * 45, 8 + 45 + 12),
        (Attention(2, 3, 4, 5), 0, 4 * 2 * 3 * 4 * 5, 30 + 80 + 30),
        (Embedding(9, 2, 3), 18, 0, 6 + 6),
        (Norm(2, 3), 3, 0, 6 + 6 + 6),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Layer) else "",
)
def test_a_layer_counts_what_it_keeps_computes_and_moves(layer: Layer, parameters: int, flops: int, moved: int) -> None:
    assert (layer.parameters, layer.flops, layer.bytes) == (parameters, flops, 4 * moved)
