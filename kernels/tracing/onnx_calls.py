"""The operators that an ONNX file calls, in order, each with its kernel: as a profile of ONNX Runtime lists them.

The profile is of the graph as it stands in the file, with the sizes that its tensors really have. An operator becomes
a call of PyTorch's on tensors without contents, whose kernel is known.
"""

import bisect
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.measurement.case import Case
from kernels.tracing.calls import Call, Found, case_of
from servemark.workload import Arrays

if TYPE_CHECKING:
    import torch

_NO_WORK = {"Constant", "Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"}
"""They move nothing, or only sizes."""
ENDING = "_kernel_time"
"""Of a node's name in the profile."""
_TYPES = {"float": "float32", "float16": "float16", "double": "float64", "bool": "bool"}
"""The profile's names -> torch's, where they are not the same."""
_CELLS = {"LSTM": "lstm", "GRU": "gru", "RNN": "vanilla"}
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Node:
    """One node as it ran. Tensors have sizes and types, and no contents."""

    operator: str
    attributes: Mapping[str, Any]
    inputs: "list[torch.Tensor]"
    output: "torch.Tensor"
    given: list[str] = field(default_factory=list)
    """The names of all inputs, "" where one is left out."""
    parameters: tuple[str, ...] = ()
    """The names of those inputs that are weights of the file."""


def calls_of(file: Path, inputs: Arrays) -> list[Call]:
    """Run a file once on a batch, and list the calls."""
    return [_call(node) for node in _nodes(file, inputs) if node.operator not in _NO_WORK]


def runs_of(records: Sequence[Record]) -> list[list[Record]]:
    """The nodes of each run of a profile, in the order in which they began."""
    nodes = [each for each in records if each.get("cat") == "Node" and each["name"].endswith(ENDING)]
    ends = sorted(each["ts"] + each["dur"] for each in records if each["name"] == "model_run")
    found: list[list[Record]] = [[] for _ in ends]
    for each in sorted(nodes, key=lambda each: (each["ts"], -each["dur"])):
        found[bisect.bisect_left(ends, each["ts"])].append(each)
    return found


def _call(node: Node) -> Call:
    name, find = f"onnx::{node.operator}", _MAPPED.get(node.operator)
    found = find(node) if find else ""
    if isinstance(found, str):
        return Call(name, reason=found)
    return Call(name, found if isinstance(found, tuple) else (found,), None, node.parameters)


def _nodes(file: Path, inputs: Arrays) -> Iterator[Node]:
    import onnx
    import onnxruntime

    model = onnx.load(file, load_external_data=False)
    known = {}
    weights = {each.name for each in model.graph.initializer}
    for number, node in enumerate(_all(model.graph)):
        node.name = f"node_{number}"  # the profile goes by names, which a file need not give
        known[node.name] = node
    with tempfile.TemporaryDirectory() as folder:
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 3
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        settings.enable_profiling, settings.profile_file_prefix = True, str(Path(folder, "profile"))
        settings.add_session_config_entry("session.model_external_initializers_file_folder_path", str(file.parent))
        settings.add_session_config_entry("session.disable_prepacking", "1")  # what is packed has no sizes there
        session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
        session.run(None, dict(inputs))
        [ran] = runs_of(json.loads(Path(session.end_profiling()).read_text()))
    for event in ran:
        said = event["args"]
        outputs = [_tensor(each) for each in said["output_type_shape"]]
        if outputs:
            node = known.get(event["name"].removesuffix(ENDING), onnx.NodeProto())
            attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
            taken = [_tensor(each) for each in said["input_type_shape"]]
            parameters = tuple(name for name in node.input if name in weights)
            yield Node(said["op_name"], attributes, taken, outputs[0], list(node.input), parameters)


def _all(graph: Any) -> Iterator[Any]:
    """The nodes of a graph and of the graphs inside them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from _all(inner)


def _tensor(described: Mapping[str, list[int]]) -> "torch.Tensor":
    """A tensor as the profile describes it, like {"float": [1, 3, 8, 8]}."""
    import torch

    [(kind, shape)] = described.items()
    dtype = getattr(torch, _TYPES.get(kind, kind), torch.uint8)
    return torch.empty(shape, dtype=dtype, device="meta")


def _padding(node: Node, dimensions: int, window: list[int]) -> list[int] | None:
    """The padding of each dimension, the same at both ends; None where it differs."""
    strides, dilations = _each(node, "strides", dimensions), _each(node, "dilations", dimensions)
    pads = list(node.attributes.get("pads") or [0] * 2 * dimensions)
    if node.attributes.get("auto_pad", b"NOTSET") in {b"SAME_UPPER", b"SAME_LOWER"}:
        sizes = zip(node.output.shape[2:], node.inputs[0].shape[2:], window, strides, dilations, strict=True)
        total = [max((out - 1) * step + (w - 1) * far + 1 - size, 0) for out, size, w, step, far in sizes]
        pads = [each // 2 for each in total] + [each - each // 2 for each in total]
    return pads[:dimensions] if pads[:dimensions] == pads[dimensions:] else None


def _each(node: Node, name: str, dimensions: int) -> list[int]:
    return list(node.attributes.get(name) or [1] * dimensions)


def _convolution(node: Node) -> Found:
    data, weight = node.inputs[:2]
    dimensions = data.dim() - 2
    padding = _padding(node, dimensions, list(weight.shape[2:]))
    if padding is None:
        return "padded on one side"
    given = {
        "input": data,
        "weight": weight,
        "stride": _each(node, "strides", dimensions),
        "padding": padding,
        "dilation": _each(node, "dilations", dimensions),
        "groups": node.attributes.get("group", 1),
        "transposed": node.operator == "ConvTranspose",
    }
    return case_of("convolution", given, node.output)


def _gemm(node: Node) -> Found:
    left, right, *bias = node.inputs
    left = left.T if node.attributes.get("transA") else left
    right = right.T if node.attributes.get("transB") else right
    if bias:
        return case_of("addmm", {"self": bias[0], "mat1": left, "mat2": right}, node.output)
    return case_of("mm", {"self": left, "mat2": right}, node.output)


def _matmul(node: Node) -> Found:
    left, right = node.inputs
    if left.dim() < 2 or right.dim() < 2:
        return "of a vector"
    if right.dim() == 2:
        return case_of("mm", {"self": left.reshape(-1, left.shape[-1]), "mat2": right}, node.output)
    if left.shape[:-2] != right.shape[:-2]:
        return "of unequal shapes or layouts"
    batched = (each.reshape(-1, *each.shape[-2:]) for each in (left, right))
    return case_of("bmm", dict(zip(("self", "mat2"), batched, strict=True)), node.output)


def _activation(node: Node) -> Found:
    how = node.attributes.get("approximate", b"none").decode()
    return case_of(node.operator.lower(), {"approximate": how}, node.output)


def _element_wise(node: Node) -> Found:
    if len(node.inputs) != 2:
        return "of other than two tensors"
    first, second = sorted(node.inputs, key=lambda each: -each.numel())
    name = {"Max": "maximum"}.get(node.operator, node.operator.lower())
    return case_of(name, {"self": first, "other": second}, node.output)


def _pool(node: Node) -> Found:
    data = node.inputs[0]
    dimensions = data.dim() - 2
    window = list(node.attributes.get("kernel_shape") or data.shape[2:])  # of a global one all
    padding = _padding(node, dimensions, window)
    if padding is None:
        return "padded on one side"
    given = {
        "self": data,
        "kernel_size": window,
        "stride": window if "Global" in node.operator else _each(node, "strides", dimensions),
        "padding": padding,
        "dilation": _each(node, "dilations", dimensions),
        "count_include_pad": node.attributes.get("count_include_pad", 0),
        "divisor_override": None,
    }
    return case_of("max_pool2d_with_indices" if "Max" in node.operator else "avg_pool2d", given, node.output)


def _gather(node: Node) -> Found:
    table, indices = node.inputs
    if table.dim() != 2 or node.attributes.get("axis", 0) != 0:
        return "not of a table's rows"
    return case_of("embedding", {"weight": table, "indices": indices}, node.output)


def _recurrent(node: Node) -> tuple[Case, ...] | str:
    """A kernel for each way of a layer. ONNX's `layout` 0: the steps first."""
    usual = not any(node.attributes.get(name) for name in ("activations", "clip", "input_forget", "layout"))
    if not usual or (node.operator == "GRU" and not node.attributes.get("linear_before_reset")):
        return "of another kind"
    if len(node.given) > 4 and node.given[4]:
        return "of several lengths"
    data, weights = node.inputs[:2]
    timesteps, batch, width = data.shape
    hidden = int(node.attributes["hidden_size"])
    sizes: dict[str, Any] = {"hidden": hidden, "batch": batch, "timesteps": timesteps}
    case = Case.of("recurrent", cell=_CELLS[node.operator], inputs=0 if width == hidden else width, **sizes)
    return (case,) * weights.shape[0]


_MAPPED: dict[str, Callable[[Node], Found | tuple[Case, ...]]] = {
    "Conv": _convolution,
    "ConvTranspose": _convolution,
    "Gemm": _gemm,
    "MatMul": _matmul,
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh", "Gelu"), _activation),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Max"), _element_wise),
    "Softmax": lambda node: case_of(
        "_softmax", {"dim": node.attributes.get("axis", -1) % node.output.dim()}, node.output
    ),
    "LayerNormalization": lambda node: case_of(
        "native_layer_norm", {"normalized_shape": node.inputs[0].shape[node.attributes.get("axis", -1) :]}, node.output
    ),
    "BatchNormalization": lambda node: case_of(
        "native_batch_norm", {"training": node.attributes.get("training_mode", 0), "input": node.inputs[0]}, node.output
    ),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), _pool),
    "Gather": _gather,
    "Concat": lambda node: case_of("cat", {"tensors": node.inputs}, node.output),
    **dict.fromkeys(_CELLS, _recurrent),
}
