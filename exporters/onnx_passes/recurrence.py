"""Recurrent layers in torch.export: one operator each, for sequences of any length."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    import torch


@contextmanager
def whole_recurrences() -> Iterator[None]:
    """Let torch trace nn.GRU and nn.LSTM as one operator each, whose output shapes follow from its inputs'.

    Torch finds these shapes by running a decomposition: a loop in Python, which fixes the number of steps, or, where
    the ONNX exporter is asked for dynamic shapes, a while_loop, which torch 2.15 cannot trace in a larger model. The
    decompositions serve no other purpose here: the operators stay in the program, and ONNX has both.
    """
    from torch.export import _patches

    with (
        warnings.catch_warnings(),
        patch.object(_patches, "gru_while_loop_impl", _gru_outputs),
        patch.object(_patches, "lstm_while_loop_impl", _lstm_outputs),
        _patches.register_gru_while_loop_decomposition(),
        _patches.register_lstm_while_loop_decomposition(),
    ):
        # the layers keep a second list of their parameters, which torch sets anew while it traces
        warnings.filterwarnings("ignore", r"The tensor attributes? .*_flat_weights", UserWarning)
        yield


def _gru_outputs(inputs: "torch.Tensor", state: "torch.Tensor", *options: Any) -> "tuple[torch.Tensor, torch.Tensor]":
    *_, bidirectional, _ = options
    width = state.shape[2] * (2 if bidirectional else 1)
    return inputs.new_empty(*inputs.shape[:2], width), state.new_empty(state.shape)


def _lstm_outputs(
    inputs: "torch.Tensor", states: "Sequence[torch.Tensor]", *options: Any
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    outputs, hidden = _gru_outputs(inputs, states[0], *options)
    return outputs, hidden, states[1].new_empty(states[1].shape)
