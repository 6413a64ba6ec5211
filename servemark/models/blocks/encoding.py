"""Recurrent layers over padded sentences, as one fused operator each."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import nn

    from servemark.models.blocks.loop import TensorTuple

PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
SATURATED = 100.0
"""In FP32 and FP16 the sigmoid of this is exactly 1, and that of its negative so close to 0 that nothing is added."""


def lstm(cells: "Iterable[nn.Module]", inputs: "torch.Tensor", padding: "torch.Tensor") -> "TensorTuple":
    """Run the cells, one for each of N directions, over inputs [B, S, D] without the padding [B, S].

    Returns outputs [B, S, N * H], meaningless at the padding, and the states h and c after the sentence, [N, B, H].
    """
    import torch

    inputs, weights, zero = _frozen(cells, (-1, 1, 0, 0), inputs, padding)  # input, forget, cell and output gate
    count, _, width = zero.shape
    outputs, h, c = torch.lstm(inputs, (zero, zero), weights, True, 1, 0.0, False, count == 2, True)
    # the cell state holds, but the output gate goes on; on its way back the layer meets the padding first, still at 0
    last = padding.logical_not().sum(dim=1, keepdim=True).unsqueeze(2) - 1  # [B, 1, 1]
    ahead = outputs[:, :, :width].gather(1, last.expand(-1, 1, width))
    return outputs, torch.cat([ahead.transpose(0, 1), h[1:]]), c


def gru(cells: "Iterable[nn.Module]", inputs: "torch.Tensor", padding: "torch.Tensor") -> "TensorTuple":
    """Run the cells like `lstm`: outputs [B, S, N * H] and the state after the sentence, [N, B, H]."""
    import torch

    inputs, weights, zero = _frozen(cells, (0, 1, 0), inputs, padding)  # reset gate, update gate, candidate
    return torch.gru(inputs, zero, weights, True, 1, 0.0, False, len(zero) == 2, True)


def _frozen(
    cells: "Iterable[nn.Module]", gates: tuple[int, ...], inputs: "torch.Tensor", padding: "torch.Tensor"
) -> "tuple[torch.Tensor, list[torch.Tensor], torch.Tensor]":
    """Let the padding hold the state as it is, in both directions, with the operators that every engine has.

    One more input is 1 at the padding, and its weights saturate the gates so that they keep everything and add
    nothing. ONNX has sequence lengths for this, which torch's exporter does not use. Returns the inputs with that one,
    the weights and the state at the start.
    """
    import torch

    parameters = [[cell.get_parameter(name) for name in PARAMETERS] for cell in cells]
    width = parameters[0][1].shape[1]
    hold = SATURATED * torch.tensor(gates, dtype=inputs.dtype, device=inputs.device)
    column = hold.repeat_interleave(width).unsqueeze(1)
    weights = []
    for weight_ih, *others in parameters:
        weights += [torch.cat([weight_ih, column], dim=1), *others]
    marked = torch.cat([inputs, padding.unsqueeze(2).to(inputs.dtype)], dim=2)
    return marked, weights, inputs.new_zeros(len(parameters), inputs.shape[0], width)
