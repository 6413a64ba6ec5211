"""ONNX graphs in int8: post-training static quantisation (Jacob et al. 2018, sections 2 and 3) by ONNX Runtime.

Convolutions and matrix products with constant weights are quantised: weights in int8 with a scale for each output
channel, activations in uint8 with ranges from calibration. So is what lies between convolutions, for activations to
stay in 8 bits on the way. Everything else (recurrent layers, loops, softmax, coordinates, scores) stays in float32.
"""

import logging
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from exporters.onnx_passes import graphs
from servemark.errors import ArtifactError
from servemark.workload import Arrays

MULTIPLYING = {"Conv", "Gemm", "MatMul"}
BETWEEN = {"Add", "AveragePool", "Clip", "Concat", "GlobalAveragePool", "MaxPool", "Relu"}
FLOATING = {"ConvTranspose", "GRU", "LSTM", "RNN"}
"""Operators with weights that ONNX Runtime cannot quantise statically."""
QUANTISED = {
    "ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul",
    "QuantizeLinear",
}  # fmt: skip
"""Operators of a graph that is quantised already; those of com.microsoft have names alike."""
OPSET = 13
"""The first whose QuantizeLinear has a scale for each channel."""
FIX = "use fp32 or fp16"
MIN_SHARE = 0.25
"""A model with less of its weights in int8 would have int8's name and fp32's speed."""


def to_int8(source: Path, target: Path, batches: Iterator[Arrays], *, symmetric: bool = False) -> dict[str, object]:
    """Write the graph of `source` in int8; returns which share of the weights is.

    `symmetric` is what TensorRT asks for: activations in int8 around zero, biases in float32. Raises ArtifactError
    where too little is in int8 to be called so.
    """
    from onnxruntime import quantization

    options: dict[str, object] = {"ActivationSymmetric": True, "QuantizeBias": False} if symmetric else {}
    with folded(source, target.parent) as file, _silence():
        model = ir.load(file)
        graph = model.graph
        chosen = [node for node in graph if node.op_type in MULTIPLYING and weights(node)]
        share = share_of_weights(graph, chosen)
        if share < MIN_SHARE:
            raise ArtifactError(
                f"ONNX Runtime could quantise {share:.0%} of the weights; it has no static quantisation for: "
                f"{others(graph, chosen)}",
                fix=FIX,
            )
        graphs.name_nodes(graph)
        if whole := prepare_products(graph, chosen):
            kind = quantization.QuantType.QInt8
            options["TensorQuantOverrides"] = {name: [{"quant_type": kind}] for name in sorted(whole)}
        ir.save(model, file)
        chosen += _between(graph, chosen)
        try:
            quantization.quantize_static(
                file,
                target,
                SimpleNamespace(get_next=lambda: next(batches, None)),
                op_types_to_quantize=sorted({node.op_type for node in chosen}),
                nodes_to_quantize=[node.name for node in chosen],
                per_channel=True,
                activation_type=quantization.QuantType.QInt8 if symmetric else quantization.QuantType.QUInt8,
                weight_type=quantization.QuantType.QInt8,
                extra_options=options,
            )
        except Exception as error:  # the quantiser raises what numpy, onnx and ONNX Runtime do
            raise ArtifactError(f"ONNX Runtime cannot quantise it: {graphs.quoted(error)}", fix=FIX) from error
    made = ir.load(target)
    made.graph.sort()  # as ONNX asks; ONNX Runtime reads it in any order
    ir.save(made, target)
    graphs.check(target, source, "int8")
    return {"int8_share_of_weights": round(share, 3)}


@contextmanager
def folded(source: Path, folder: Path) -> Iterator[Path]:
    """Give a copy of the graph with batch normalisation folded into convolutions, which goes away afterwards."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        file, whole = Path(temporary, "folded.onnx"), Path(temporary, "whole.onnx")
        model = graphs.load(source, opset=OPSET)
        _check_weights(model)
        graphs.name_nodes(model.graph)
        ir.save(model, whole)
        with _silence():
            quant_pre_process(whole, file, skip_symbolic_shape=True)  # which fails on sizes that vary
        yield file


def _check_weights(model: ir.Model) -> None:
    """Check that there is something to quantise that is not quantised yet. Raises ArtifactError."""
    nodes = list(graphs.every_node(model))
    if found := Counter(node.op_type for node in nodes if _is_quantised(node)):
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))
        raise ArtifactError(f"it is quantised already ({kinds})", fix="use fp32, which runs the file as it is")
    if not any(node.op_type in MULTIPLYING | FLOATING for node in nodes):
        kinds = ", ".join(sorted(MULTIPLYING))
        raise ArtifactError(f"it has no weights to quantise: no {kinds} or recurrent layer", fix="use fp32")


def _is_quantised(node: ir.Node) -> bool:
    return node.op_type in QUANTISED or (
        node.domain == "com.microsoft" and re.search("^Q[A-Z]|Quantize|Integer|NBits", node.op_type) is not None
    )


def share_of_weights(graph: ir.Graph, chosen: Collection[ir.Node]) -> float:
    """Share of the weights that these nodes multiply with, of all, those in loops included."""
    total = sum(map(weights, ir.traversal.RecursiveGraphIterator(graph)))
    return sum(map(weights, chosen)) / total if total else 0.0


def others(graph: ir.Graph, chosen: Collection[ir.Node]) -> str:
    """Say which operators multiply with the other weights, and with how many of all, such as `GRU 90%`."""
    counts: Counter[str] = Counter()
    nodes = list(ir.traversal.RecursiveGraphIterator(graph))
    for node in nodes:
        if node not in chosen:
            counts[node.op_type if node.graph is graph else f"{node.op_type} in a loop"] += weights(node)
    total = sum(map(weights, nodes))
    return ", ".join(f"{place} {count / total:.0%}" for place, count in sorted(counts.items()) if count)


def weights(node: ir.Node) -> int:
    """Count the constants that a node multiplies with; biases are none."""
    if node.op_type not in MULTIPLYING | FLOATING:
        return 0
    constants = [value.const_value for value in node.inputs[:3] if value is not None and value.const_value is not None]
    return sum(constant.size for constant in constants if len(constant.shape) > 1)


def _between(graph: ir.Graph, chosen: list[ir.Node]) -> list[ir.Node]:
    """Find what reads nothing but what convolutions made, at one remove or more."""
    made = {value for node in chosen if node.op_type == "Conv" for value in node.outputs}
    found = []
    for node in graph:
        read = node.inputs[:1] if node.op_type == "Clip" else node.inputs
        if node.op_type in BETWEEN and all(value in made for value in read):
            found.append(node)
            made.update(node.outputs)
    return found


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the quantiser's advice, which is taken already, off the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def prepare_products(graph: ir.Graph, chosen: Collection[ir.Node]) -> set[str]:
    """Rewrite products in place, without another answer; returns the weights that have one scale for all channels.

    ONNX Runtime's quantiser forgets the factor of a bias, shares the scale of a bias between nodes, and takes the
    second dimension of any matrix for its output channels. So a Gemm gets no factors, and each node a bias of its own.
    """
    for node in chosen:
        while node.inputs and node.inputs[-1] is None:
            node.resize_inputs(len(node.inputs) - 1)
        if node.op_type == "Gemm":
            _without_factors(graph, node)
            _with_plain_bias(graph, node)
        if len(node.inputs) > 2:
            _own(graph, node, 2)
        for index in range(min(2, len(node.inputs))):
            if _is_read_otherwise(node, index, chosen):
                _own(graph, node, index)
    whole = set()
    for node in (each for each in chosen if each.op_type == "MatMul"):
        for index, value in enumerate(node.inputs[:2]):
            array = _constant(value)
            # no matrix of which each column makes one output channel
            if value is not None and array is not None and (index == 0 or array.ndim != 2):
                whole.add(str(value.name))
    return whole


def _constant(value: ir.Value | None) -> npt.NDArray[np.generic] | None:
    """Return what a value always is; None for one that is computed."""
    return None if value is None or value.const_value is None else value.const_value.numpy()


def _is_read_otherwise(node: ir.Node, index: int, chosen: Collection[ir.Node]) -> bool:
    """Tell whether weights are read in a subgraph too, or along another axis."""
    value = node.inputs[index]
    if value is None or value.const_value is None:
        return False
    return any(
        use.node.graph is not node.graph or (use.node in chosen and _role(use.node, use.idx) != _role(node, index))
        for use in value.uses()
    )


def _role(node: ir.Node, index: int) -> tuple[bool, int, int]:
    return (node.op_type == "Conv", index, graphs.integer(node, "transB"))


def _without_factors(graph: ir.Graph, node: ir.Node) -> None:
    """Multiply the constants of a Gemm with its factors."""
    for name, index in (("alpha", 1), ("beta", 2)):
        factor = node.attributes[name].as_float() if name in node.attributes else 1.0
        array = _constant(node.inputs[index]) if index < len(node.inputs) else None
        if factor != 1 and array is not None:
            _set(graph, node, index, (array * np.asarray(factor, array.dtype)).astype(array.dtype))
            del node.attributes[name]


def _with_plain_bias(graph: ir.Graph, node: ir.Node) -> None:
    """Give a Gemm one bias for each output channel, or add what is none afterwards."""
    matrix, bias = _constant(node.inputs[1]), _constant(node.inputs[2]) if len(node.inputs) > 2 else None
    if matrix is None or bias is None:
        return
    channels = matrix.shape[0 if graphs.integer(node, "transB") else 1]
    if bias.shape == (channels,):
        return
    if bias.size == 1 or bias.shape == (1, channels):
        _set(graph, node, 2, np.broadcast_to(bias.reshape(-1), (channels,)).copy())
        return
    answer, added = node.outputs[0], node.inputs[2]
    node.resize_inputs(2)
    add = ir.node("Add", [answer, added], name=f"{node.name}_bias")
    total = add.outputs[0]
    total.type, total.shape = answer.type, answer.shape
    graph.insert_after(node, add)
    for use in answer.uses():
        if use.node is not add:
            use.node.replace_input_with(use.idx, total)
    graph.outputs[:] = [total if value is answer else value for value in graph.outputs]
    total.name, answer.name = answer.name, f"{answer.name}_without_bias"


def _own(graph: ir.Graph, node: ir.Node, index: int) -> None:
    """Give a node a copy of a constant that other nodes read too."""
    value = node.inputs[index]
    array = _constant(value)
    if value is not None and array is not None and len(value.uses()) > 1:
        _set(graph, node, index, array)


def _set(graph: ir.Graph, node: ir.Node, index: int, array: npt.NDArray[np.generic]) -> None:
    before = node.inputs[index]
    name = f"{before.name if before else node.name}_of_{node.name}_{index}"
    node.replace_input_with(index, graphs.initializer(graph, name, array))
    if before is not None and before.is_initializer() and not before.uses() and not before.is_graph_output():
        del graph.initializers[str(before.name)]
