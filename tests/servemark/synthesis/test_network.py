"""The workload file of a chain: it loads, counts its parameters, and its network computes what it says."""

from pathlib import Path

import numpy as np
import pytest

from servemark.synthesis.layers import Layer, layers_of
from servemark.synthesis.match import Target
from servemark.synthesis.network import CLASSES, connected, hidden_sizes, written
from servemark.synthesis.search import Chain, Link
from servemark.workload.own_files import load_file

CHAIN = Chain(
    33, (Link(7, 2, 8), Link(1, 1, 12, pooled=True), Link(4, 1, 10), Link(1, 2, 6), Link(3, 1, 16, pooled=True))
)


def test_a_file_is_a_workload_whose_layers_are_those_of_the_chain(tmp_path: Path) -> None:
    file = tmp_path / "made.py"
    file.write_text(written("made", CHAIN, (20,), ("a", "b"), "a b --name made --seed 0"))
    workload = load_file(file)
    assert (workload.name, workload.inputs[0].shape) == ("made", (3, 33, 33))
    import torch

    model = workload.build()
    assert sum(each.numel() for each in model.parameters()) == workload.parameters
    samples = workload.samples(np.random.default_rng(0))
    answers = model(torch.from_numpy(workload.request([next(samples), next(samples)])["image"]))
    assert answers.shape == (2, CLASSES)
    assert not torch.equal(answers[0], answers[1])


def test_layers_of_a_network_are_told_with_what_is_left_out() -> None:
    found = layers_of("vgg16_tiny")
    assert len(found.convolutions) == 13
    assert len(found.connected) == 3
    assert {layer.kernel for layer in found.convolutions} == {3}
    assert 0 <= found.left_out < 0.2


def test_a_convolution_counts_what_it_computes_and_moves() -> None:
    layer = Layer(3, 2, 4, 8, 9)
    assert (layer.side_after, layer.parameters, layer.flops) == (5, 288, 2 * 288 * 25)
    assert layer.bytes == 4 * (4 * 81 + 288 + 8 * 25)


@pytest.mark.parametrize(("layers", "weights"), [(1, 5e5), (2, 3e7), (3, 1.2e8)])
def test_hidden_sizes_have_the_weights_of_the_target(layers: int, weights: float) -> None:
    target = Target(2, {}, {}, 1.0, 1.0, layers, weights)
    hidden = hidden_sizes(512, target)
    assert len(hidden) == layers - 1
    if hidden:
        assert sum(a * b for a, b in connected(512, hidden)) == pytest.approx(weights, rel=0.01)
