"""Layers found in calls: shared weights, loops, attentions, and what is left out."""

import pytest
from torch import nn

from kernels.tracing.calls import calls_of
from servemark.synthesis.layers import Attention, Convolution, Dense, Embedding, Layer, Norm, Recurrent
from servemark.synthesis.tracing import found_in, layers_of


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
