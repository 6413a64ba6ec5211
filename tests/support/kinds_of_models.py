"""Small networks of the kinds that people serve, with random weights, as their ONNX exports."""

from collections.abc import Callable
from typing import Any

import onnx
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

from exporters.onnx_passes.torch_export import without_repeated_work

Inputs = tuple[Tensor, ...]
KINDS: dict[str, Callable[[], tuple[nn.Module, Inputs]]] = {}


def kind(make: Callable[[], tuple[nn.Module, Inputs]]) -> Callable[[], tuple[nn.Module, Inputs]]:
    """Register a kind by the name of what makes its network and inputs."""
    KINDS[make.__name__] = make
    return make


def exported(name: str) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Export a kind; returns the file, and inputs by their names."""
    torch.manual_seed(0)
    network, inputs = KINDS[name]()
    names = [f"input.{number}" for number in range(len(inputs))]
    network.eval().requires_grad_(False)
    with without_repeated_work():
        program = torch.onnx.export(network, inputs, dynamo=True, input_names=names, verbose=False)
    assert program is not None
    return program.model_proto, {name: each.numpy() for name, each in zip(names, inputs, strict=True)}


class Calling(nn.Module):
    """A network of parts that a function calls."""

    def __init__(self, forward: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(parts)
        self._forward = forward

    def forward(self, *inputs: Tensor) -> Any:
        return self._forward(self.parts, *inputs)


@kind
def text_encoder() -> tuple[nn.Module, Inputs]:
    """Like BERT: embeddings, a mask of padding, attention, the first token."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True)

    def forward(parts: nn.ModuleDict, ids: Tensor, mask: Tensor) -> Any:
        found: Tensor = parts["encoder"](parts["words"](ids), src_key_padding_mask=mask == 0)
        return parts["head"](torch.tanh(found[:, 0]))

    network = Calling(
        forward, words=nn.Embedding(50, 16), encoder=nn.TransformerEncoder(layer, 1), head=nn.Linear(16, 3)
    )
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    return network, (torch.randint(0, 50, (2, 7)), mask)


@kind
def image_transformer() -> tuple[nn.Module, Inputs]:
    """Like ViT: patches by a convolution, attention, a mean."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True, norm_first=True)

    def forward(parts: nn.ModuleDict, image: Tensor) -> Tensor:
        patches = parts["patches"](image).flatten(2).transpose(1, 2)
        return torch.softmax(parts["head"](parts["encoder"](patches).mean(1)), -1)

    parts = {
        "patches": nn.Conv2d(3, 16, 4, 4),
        "encoder": nn.TransformerEncoder(layer, 1, enable_nested_tensor=False),
        "head": nn.Linear(16, 5),
    }
    return Calling(forward, **parts), (torch.randn(2, 3, 16, 16),)


@kind
def speech_encoder() -> tuple[nn.Module, Inputs]:
    """Like Whisper's: convolutions over time with GELU, then attention."""

    def forward(parts: nn.ModuleDict, spectrum: Tensor) -> Any:
        first = nn.functional.gelu(parts["first"](spectrum))
        second = nn.functional.gelu(parts["second"](first))
        return parts["attention"](*[second.transpose(1, 2)] * 3, need_weights=False)[0]

    attention = nn.MultiheadAttention(16, 2, batch_first=True)
    parts = {"first": nn.Conv1d(8, 16, 3, padding=1), "second": nn.Conv1d(16, 16, 3, 2, 1), "attention": attention}
    return Calling(forward, **parts), (torch.randn(2, 8, 12),)


@kind
def segmentation() -> tuple[nn.Module, Inputs]:
    """Like U-Net: down, up by a transposed convolution and by resizing, joined."""

    def forward(parts: nn.ModuleDict, image: Tensor) -> Tensor:
        above = torch.relu(parts["above"](image))
        below = torch.relu(parts["below"](nn.functional.max_pool2d(above, 2)))
        resized = nn.functional.interpolate(below, scale_factor=2, mode="bilinear", align_corners=False)
        return torch.sigmoid(parts["last"](torch.cat([above, parts["up"](below), resized], 1)))

    parts = {"above": nn.Conv2d(3, 4, 3, padding=1), "below": nn.Conv2d(4, 8, 3, padding=1)}
    parts |= {"up": nn.ConvTranspose2d(8, 4, 2, 2), "last": nn.Conv2d(16, 1, 1)}  # type: ignore[dict-item]
    return Calling(forward, **parts), (torch.randn(2, 3, 12, 12),)


@kind
def detector() -> tuple[nn.Module, Inputs]:
    """Like YOLO: SiLU, a split, pooled context, boxes decoded on a grid."""

    def forward(parts: nn.ModuleDict, image: Tensor) -> Tensor:
        left, right = nn.functional.silu(parts["stem"](image)).chunk(2, 1)
        joined = torch.cat([left, nn.functional.max_pool2d(right, 5, 1, 2)], 1)
        boxes = parts["head"](joined).view(2, 2, 7, -1).permute(0, 1, 3, 2)
        place, size, rest = boxes.split([2, 2, 3], -1)
        return torch.cat([place.sigmoid() * 2 - 0.5, (size.sigmoid() * 2) ** 2, rest.sigmoid()], -1)

    parts = {"stem": nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8)), "head": nn.Conv2d(8, 14, 1)}
    return Calling(forward, **parts), (torch.randn(2, 3, 16, 16),)


@kind
def text_recogniser() -> tuple[nn.Module, Inputs]:
    """Like CRNN: a convolution, then an LSTM in both directions over the columns."""

    def forward(parts: nn.ModuleDict, image: Tensor) -> Tensor:
        columns = torch.relu(parts["stem"](image)).mean(2).transpose(1, 2)
        return torch.log_softmax(parts["head"](parts["rnn"](columns)[0]), -1)

    rnn = nn.LSTM(8, 6, bidirectional=True, batch_first=True)
    return Calling(forward, stem=nn.Conv2d(1, 8, 3, 2, 1), rnn=rnn, head=nn.Linear(12, 9)), (torch.randn(2, 1, 8, 20),)


@kind
def mobile_classifier() -> tuple[nn.Module, Inputs]:
    """Like MobileNet: depthwise convolutions, hard swish, squeeze and excite, ReLU6."""

    def forward(parts: nn.ModuleDict, image: Tensor) -> Any:
        wide = nn.functional.hardswish(parts["wide"](image))
        deep = nn.functional.relu6(parts["deep"](wide))
        scaled: Tensor = deep * nn.functional.hardsigmoid(parts["excite"](nn.functional.adaptive_avg_pool2d(deep, 1)))
        return parts["head"](scaled.mean((2, 3)))

    parts = {"wide": nn.Conv2d(3, 8, 1), "deep": nn.Conv2d(8, 8, 3, 2, 1, groups=8), "excite": nn.Conv2d(8, 8, 1)}
    return Calling(forward, **parts, head=nn.Linear(8, 4)), (torch.randn(2, 3, 12, 12),)


def tree_ensemble() -> onnx.ModelProto:
    """Make a forest of one tree, as scikit-learn's converters write it."""
    tree: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
        "n_targets": 1,
    }
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], "forest", domain="ai.onnx.ml", **tree)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1]) for name in ("x", "y")]
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)])


def strings() -> onnx.ModelProto:
    """Make a network of strings."""
    node = helper.make_node("StringNormalizer", ["x"], ["y"], "lower", case_change_action="LOWER")
    ports = [helper.make_tensor_value_info(name, TensorProto.STRING, ["n"]) for name in ("x", "y")]
    return helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:]))
