"""ONNX graphs in fp8: post-training quantisation to E4M3 (Micikevicius et al. 2022, "FP8 Formats for Deep Learning").

What convolutions and matrix products with constant weights read is rounded to float8 with one scale for each tensor,
so that the largest absolute value (of activations: under calibration) becomes the format's largest. As in section 4.1
there, everything else stays as it is: biases, recurrent layers, loops, softmax, coordinates, scores in float32.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from exporters.onnx_passes import graphs
from exporters.onnx_passes.quantisation import MIN_SHARE, MULTIPLYING, folded, others, share_of_weights, weights
from servemark.errors import ArtifactError
from servemark.frameworks.onnxruntime import import_onnxruntime
from servemark.workload import Arrays

FLOAT8 = ir.DataType.FLOAT8E4M3FN.numpy()
MAX_FLOAT8 = float(ir.DataType.FLOAT8E4M3FN.max)
OPSET = 19
"""The first whose QuantizeLinear and DequantizeLinear know float8."""
FEWEST_CHANNELS, LARGEST_FILTER = 16, 32
"""TensorRT's fp8 convolutions need as many channels in and out, in one group, and no more elements in a filter; where
it has no kernel the build fails (NVIDIA/TensorRT issue 3987; NVIDIA's Model Optimizer leaves the same ones out)."""


def to_fp8(source: Path, target: Path, batches: Iterator[Arrays]) -> dict[str, object]:
    """Write the graph of `source` with products in fp8; returns which share of the weights is.

    Raises ArtifactError where too little is in fp8 to be called so.
    """
    with folded(source, target.parent) as file:
        model = graphs.raised(ir.load(file), OPSET)
        chosen = [node for node in model.graph if _has_kernel(node)]
        share = share_of_weights(model.graph, chosen)
        if share < MIN_SHARE:
            raise ArtifactError(
                f"only {share:.0%} of the weights could be quantised to fp8; the others belong to: "
                f"{others(model.graph, chosen)}",
                fix="use fp32, fp16 or bf16",
            )
        activations = list(dict.fromkeys(_input(node, 0) for node in chosen))
        largest = _largest(model, activations, file, batches)
        rounded = {value: _quantise(model.graph, value, largest[str(value.name)]) for value in activations}
        kept = {value: _store(model.graph, value) for value in dict.fromkeys(_input(node, 1) for node in chosen)}
        for node in chosen:
            node.replace_input_with(0, rounded[_input(node, 0)])
            node.replace_input_with(1, kept[_input(node, 1)])
        for value in kept:
            if value.is_initializer() and not value.uses():
                del model.graph.initializers[str(value.name)]
        model.graph.sort()
        ir.save(model, target)
    return {"fp8_share_of_weights": round(share, 3)}


def _has_kernel(node: ir.Node) -> bool:
    """Tell whether a node is a product with constant weights that TensorRT can compute in fp8."""
    if node.op_type not in MULTIPLYING or _input(node, 1).const_value is None:
        return False
    shape = _array(_input(node, 1)).shape
    if node.op_type != "Conv":
        return weights(node) > 0
    return (
        graphs.integer(node, "group", 1) == 1
        and min(shape[:2]) >= FEWEST_CHANNELS
        and math.prod(shape[2:]) <= LARGEST_FILTER
    )


def _largest(model: ir.Model, values: Sequence[ir.Value], file: Path, batches: Iterable[Arrays]) -> Mapping[str, float]:
    """Run calibration batches in float32; returns each value's largest absolute element. `file` is overwritten."""
    onnxruntime = import_onnxruntime()
    outputs = list(model.graph.outputs)
    model.graph.outputs.extend(value for value in values if value not in {*model.graph.inputs, *outputs})
    names = [str(value.name) for value in model.graph.outputs]
    ir.save(model, file)
    model.graph.outputs[:] = outputs
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    found = {str(value.name): 0.0 for value in values}
    for batch in batches:
        seen = {**batch, **dict(zip(names, session.run(names, batch), strict=True))}
        found = {name: max(peak, float(np.abs(seen[name]).max(initial=0))) for name, peak in found.items()}
    return found


def _quantise(graph: ir.Graph, value: ir.Value, largest: float) -> ir.Value:
    """Round an activation to float8 and back; what exceeds the calibration's largest becomes that."""
    scale, zero = _constants(graph, value, largest)
    quantise = ir.node("QuantizeLinear", [value, scale, zero])
    return _dequantise(graph, value, [quantise.outputs[0], scale, zero], quantise)


def _store(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """Keep weights in float8, which takes a quarter of the room."""
    array = _array(value)
    scale, zero = _constants(graph, value, float(np.abs(array).max(initial=0)))
    narrow = graphs.initializer(graph, f"{value.name}_fp8", (array / _array(scale)).astype(FLOAT8))
    return _dequantise(graph, value, [narrow, scale, zero])


def _dequantise(graph: ir.Graph, value: ir.Value, inputs: Sequence[ir.Value], *before: ir.Node) -> ir.Value:
    node = ir.node("DequantizeLinear", inputs)
    graph.extend([*before, node])
    for each in (*before, node):
        each.outputs[0].name = f"{value.name}_{each.op_type}"
    answer = node.outputs[0]
    answer.type, answer.shape = value.type, value.shape
    return answer


def _constants(graph: ir.Graph, value: ir.Value, largest: float) -> tuple[ir.Value, ir.Value]:
    """Make the scale, which is 1 for what is always zero, and the zero point, which also says the type."""
    scale = np.float32(largest / MAX_FLOAT8 or 1.0)
    zero = graphs.initializer(graph, f"{value.name}_fp8_zero", np.zeros((), FLOAT8))
    return graphs.initializer(graph, f"{value.name}_fp8_scale", scale), zero


def _input(node: ir.Node, index: int) -> ir.Value:
    value = node.inputs[index]
    if value is None:
        raise AssertionError(f"{node.op_type} {node.name} has no input {index}")
    return value


def _array(value: ir.Value) -> npt.NDArray[np.float32]:
    if value.const_value is None:
        raise AssertionError(f"{value.name} is not a constant")
    return np.asarray(value.const_value.numpy(), np.float32)
