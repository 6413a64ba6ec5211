"""Operators of PyTorch become kernels of the same sizes, whose call is the same call; others say why not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from kernels.measurement.case import Case
from kernels.tracing.calls import calls_of

PICTURE = torch.randn(2, 4, 6, 8)
ROWS = torch.randn(3, 5)
HEADS = torch.randn(2, 3, 4, 5)
SQUARE: dict[str, Any] = {"size": (12, 16), "filter": (4, 4), "padding": (1, 1), "stride": (2, 2)}

Run = Callable[[], Any]
MAPPED: list[tuple[Run, Case]] = [
    (lambda: nn.Linear(5, 7)(ROWS), Case.of("fully_connected", batch=3, inputs=5, outputs=7)),
    (lambda: ROWS @ torch.randn(5, 7), Case.of("gemm", m=7, n=3, k=5)),
    (lambda: ROWS @ torch.randn(7, 5).mT, Case.of("gemm", m=7, n=3, k=5, a_t=True)),
    (lambda: torch.randn(5, 3).mT @ torch.randn(5, 7), Case.of("gemm", m=7, n=3, k=5, b_t=True)),
    (lambda: torch.bmm(torch.randn(9, 3, 5), torch.randn(9, 5, 7)), Case.of("gemm", m=7, n=3, k=5, batch=9)),
    (lambda: torch.randn(7, 5) @ ROWS[0], Case.of("gemm", m=7, n=1, k=5, a_t=True)),
    (
        lambda: nn.Conv2d(4, 8, 3, padding=2, dilation=2, groups=2)(PICTURE),
        Case.of("convolution", n=2, c=4, k=8, size=(6, 8), filter=(3, 3), padding=(2, 2), dilation=(2, 2), groups=2),
    ),
    (
        lambda: nn.ConvTranspose2d(4, 8, 4, stride=2, padding=1)(PICTURE),
        Case.of("convolution", n=2, c=8, k=4, **SQUARE, direction="backward_data"),
    ),
    (
        lambda: nn.Conv1d(4, 8, 3)(PICTURE[:1, :, 0]),
        Case.of("convolution", n=1, c=4, k=8, size=(8,), filter=(3,), padding=(0,), stride=(1,)),
    ),
    (lambda: nn.BatchNorm2d(4).eval()(PICTURE), Case.of("batch_norm", n=2, c=4, h=6, w=8)),
    (lambda: nn.LayerNorm((6, 8))(PICTURE), Case.of("layer_norm", rows=8, width=48)),
    (lambda: ROWS.softmax(-1), Case.of("softmax", rows=3, width=5)),
    (lambda: functional.gelu(ROWS), Case.of("activation", function="gelu", length=15)),
    (lambda: ROWS.clone().relu_(), Case.of("activation", function="relu", length=15)),
    (lambda: ROWS - ROWS, Case.of("element_wise", operation="sub", length=15)),
    (lambda: ROWS * 2, Case.of("memory", operation="scale", length=15)),
    (lambda: torch.cat([ROWS, ROWS]), Case.of("memory", operation="copy", length=30)),
    (lambda: functional.max_pool2d(PICTURE, 2), Case.of("pooling", kind="max", n=2, c=4, h=6, w=8, window=2, stride=2)),
    (
        lambda: functional.avg_pool2d(PICTURE, 3, 1, 1),
        Case.of("pooling", kind="average", n=2, c=4, h=6, w=8, window=3, stride=1, padding=1),
    ),
    (lambda: nn.Embedding(9, 5)(torch.tensor([1, 2])), Case.of("embedding", rows=9, width=5, lookups=2)),
    (
        lambda: functional.scaled_dot_product_attention(HEADS, HEADS, HEADS),
        Case.of("attention", batch=2, heads=3, queries=4, keys=4, width=5),
    ),
]
UNMAPPED: list[tuple[Run, str]] = [
    (lambda: ROWS.clone().t().contiguous(), "aten::clone (to another layout)"),
    (lambda: torch.arange(6).add(1), "aten::add (of int64)"),
    (lambda: ROWS + ROWS[0], "aten::add (of unequal shapes or layouts)"),
    (lambda: ROWS.softmax(0), "aten::_softmax (over a dimension that is not the last)"),
    (lambda: nn.BatchNorm2d(4).train()(PICTURE), "aten::native_batch_norm (with the batch's own statistics)"),
    (lambda: functional.max_pool2d(PICTURE, 4, ceil_mode=True), "of a window at the edge)"),
    (lambda: functional.avg_pool2d(PICTURE, (2, 1)), "that are not square)"),
    (ROWS.amax, "aten::amax"),
]


@pytest.mark.parametrize(("run", "case"), MAPPED, ids=[str(case) for _, case in MAPPED])
def test_a_call_becomes_the_kernel_of_its_sizes(run: Run, case: Case) -> None:
    assert calls_of(run)[-1].cases == (case,)


@pytest.mark.parametrize(("run", "name"), UNMAPPED, ids=[name for _, name in UNMAPPED])
def test_what_no_family_has_is_named(run: Run, name: str) -> None:
    names = [call.name for call in calls_of(run) if call.reason is not None]
    assert names[-1].endswith(name)


def test_views_are_no_calls() -> None:
    assert calls_of(lambda: PICTURE.view(2, -1).t()[1:].unsqueeze(0).expand(3, -1, -1).detach()) == []


@pytest.mark.parametrize(
    ("layer", "cell", "widths"),
    [
        (nn.LSTM(5, 7, num_layers=2), "lstm", [5, 0]),
        (nn.GRU(7, 7, batch_first=True, bidirectional=True), "gru", [0, 0]),
        (nn.RNN(5, 7), "vanilla", [5]),
    ],
)
def test_a_recurrent_layer_is_one_kernel(layer: nn.RNNBase, cell: str, widths: list[int]) -> None:
    data = torch.randn(3, 3, layer.input_size)
    calls = calls_of(lambda: layer(data))
    sizes: dict[str, Any] = {"cell": cell, "hidden": 7, "batch": 3, "timesteps": 3}
    assert [case for call in calls for case in call.cases] == [Case.of("recurrent", **sizes, inputs=w) for w in widths]
    assert {call.name for call in calls if call.reason is not None} == {"aten::zeros"}  # its first state


def test_packed_sequences_are_told_by_their_parts() -> None:
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 2, 5), torch.tensor([3, 2]))
    calls = calls_of(lambda: nn.RNN(5, 7)(packed))
    assert {case.family for call in calls for case in call.cases} >= {"fully_connected"}
