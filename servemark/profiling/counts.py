"""Operations and bytes of an operator from the shapes of its tensors, by the rule of the zoo's FLOPs.

Multiply-adds times 2 in convolutions, products and recurrent gates; 0 for all else (docs/explanation/metrics.md). Bytes
are what an operator has to move: each tensor once, and of a table the rows that are taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from servemark.profiling.categories import category_of, plain

_RECURRENT = {"lstm", "gru", "rnn", "dynamicquantizelstm"}
_RECURRENT_OF_OPENVINO = {"lstmsequence", "grusequence", "rnnsequence", "lstmcell", "grucell", "rnncell", "rnnseq"}
_ATTENTION = {"scaleddotproductattention", "multiheadattention", "attention"}
_UNTOLD = {"mha", "rnntanh", "vanillarnn", "rnncelltanh"}
"""Products within, of which the shapes do not tell which."""
_PACKED = {"fullyconnected", "matmulnbits"}
"""Products whose weights may be packed in groups, so that their shape does not tell the width that is summed."""
_TRANSPOSED = {
    "convtranspose",
    "deconvolution",
    "convolutionbackpropdata",
    "groupconvolutionbackpropdata",
    "conv2dbackpropinput",
    "conv3dbackpropinputv2",
}
_TAKES_ROWS = {"gather", "gatherv2", "embedding", "indexselect", "gathernd", "gatherelements"}
_MOVES_NOTHING = {"reshape", "flatten", "squeeze", "unsqueeze", "expanddims", "shape", "shapeof", "size", "constant"}


@dataclass(frozen=True)
class Shaped:
    """A tensor without its contents."""

    shape: tuple[int, ...]
    item_bytes: int = 4

    @property
    def bytes(self) -> int:
        """Size (bytes)."""
        return prod(self.shape) * self.item_bytes


def flops_of(
    operator: str, inputs: Sequence[Shaped], outputs: Sequence[Shaped], *, window_first: bool = False
) -> int | None:
    """Operations of one call; None where a tensor is missing.

    Weights of a convolution are [channels out, channels in / groups, window] in ONNX, [window, channels in / groups,
    channels out] in TensorFlow (`window_first`); those of a transposed one have in and out the other way round.
    """
    try:
        return _flops(operator, inputs, outputs, window_first=window_first)
    except (IndexError, StopIteration, ValueError):
        return None


def _flops(operator: str, inputs: Sequence[Shaped], outputs: Sequence[Shaped], *, window_first: bool) -> int | None:
    kind, category = plain(operator), category_of(operator)
    if kind in _UNTOLD:
        return None
    if kind in _ATTENTION:
        return _attention([each.shape for each in inputs], [each.shape for each in outputs])
    if kind in _RECURRENT | _RECURRENT_OF_OPENVINO:
        # Both matrices, [ways, gates * hidden, width], stand behind the data in ONNX, before the bias in OpenVINO.
        first, second = inputs[1:3] if kind in _RECURRENT else inputs[-3:-1]
        return 2 * prod(inputs[0].shape[:-1]) * (prod(first.shape) + prod(second.shape))
    if category == "convolution":
        data = inputs[2 if window_first else 0] if kind in _TRANSPOSED else outputs[0]
        weights = next(each.shape for each in inputs[1:] if len(each.shape) > 2)
        window = weights[:-1] if window_first else weights[2 if kind.startswith("group") else 1 :]
        return 2 * prod(data.shape) * prod(window)
    if category == "gemm":
        left, right = inputs[0].shape, next(each.shape for each in inputs[1:] if len(each.shape) > 1)
        inner = left[-1] if kind in _PACKED or left[-1] in right[-2:] else left[-2]
        return 2 * prod(outputs[0].shape) * inner
    return 0


def _attention(inputs: Sequence[tuple[int, ...]], outputs: Sequence[tuple[int, ...]]) -> int | None:
    """Operations of two products: 4 * batch * heads * queries * keys * width where keys and values are as wide.

    None unless queries, keys and values are [..., places, width] alike: other forms pack them, or project them first.
    An operator that gives the keys back has more of them than its input.
    """
    if len(inputs) < 3 or len(outputs) != 1 or len({len(shape) for shape in inputs[:3]}) > 1 or len(inputs[0]) < 3:
        return None
    queries, keys, values = inputs[:3]
    return 2 * keys[-2] * (prod(queries) + prod(outputs[0])) if keys[-2] == values[-2] else None


def bytes_of(operator: str, inputs: Sequence[Shaped], outputs: Sequence[Shaped]) -> int:
    """Bytes that one call has to move."""
    kind = plain(operator)
    if kind in _MOVES_NOTHING:
        return 0
    written = sum(each.bytes for each in outputs)
    if kind in _TAKES_ROWS:
        return 2 * written + sum(each.bytes for each in inputs[1:])
    return written + sum(each.bytes for each in inputs)
