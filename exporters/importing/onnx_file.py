"""ONNX files: tensors, counts, opset; external data, custom operators and sizes are checked before anything runs."""

import functools
import shutil
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

from exporters.importing import onnx_graph, thresholds
from exporters.importing.external_data import FIX, bytes_of, external_tensors, gather, kept
from exporters.importing.model_file import (
    MAX_BYTES,
    MAX_SHOWN,
    OPEN,
    Draw,
    ModelDescription,
    Ranges,
    TensorInfo,
    shown,
    unusable,
)
from exporters.importing.onnx_graph import parts
from servemark.errors import ArtifactError, parsing
from servemark.frameworks.onnxruntime import import_onnxruntime
from servemark.workload import Workload

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

ENGINE = "onnxruntime"
KIND = "an ONNX file"
AGAIN = "export it again"
STANDARD = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}
"""The domains whose operators ONNX Runtime has itself; com.microsoft's are its own."""
REACHING_OUT = {("com.microsoft", "EPContext"), ("com.microsoft", "Snpe")}
"""Operators that run another engine's binary, out of the graph or out of a file."""
DATATYPES = {
    "FLOAT": "FP32",
    "DOUBLE": "FP64",
    "FLOAT16": "FP16",
    "BOOL": "BOOL",
    "UINT8": "UINT8",
    "INT8": "INT8",
    "INT32": "INT32",
    "INT64": "INT64",
    "STRING": "BYTES",
}
"""ONNX's names -> KServe's."""
MAX_NODES = 100_000
"""Maximum number of nodes of a graph with its subgraphs."""
MAX_TENSORS = 1000
"""Maximum number of inputs and outputs, as of a foreign server's model."""
HEAVY_FLOPS = 10e9
"""A model above this is asked one request in each range that is tried."""
LOADS_OPSET, LOADS_IR = 13, 8
"""Versions that every ONNX Runtime of today loads."""


def recognises(path: Path) -> bool:
    """Return True if the name is that of an ONNX file; ONNX has no other mark."""
    return path.is_file() and path.suffix == ".onnx"


def describe(path: Path) -> ModelDescription:
    """Read an ONNX file without its weights. Raises ArtifactError."""
    with parsing(path, ArtifactError, fix=AGAIN):
        return _described(path, _read(path))


def _described(path: Path, model: "ModelProto") -> ModelDescription:
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]  # old files list the weights there too
    if len(inputs) + len(graph.output) > MAX_TENSORS:
        count = f"{len(inputs):,} inputs and {len(graph.output):,} outputs"
        raise unusable(path, f"it has {count}, and {MAX_TENSORS:,} are the most", fix=AGAIN)
    found = ModelDescription(
        inputs=tuple(_port(path, value, "input") for value in inputs),
        outputs=tuple(_port(path, value, "output") for value in graph.output),
        facts={
            "opset": next((each.version for each in model.opset_import if each.domain in {"", "ai.onnx"}), None),
            "ir_version": model.ir_version,
            "producer": f"{model.producer_name} {model.producer_version}".strip() or None,
        },
        parameters=onnx_graph.parameters(model),
        ranges={value.name: (0, rows - 1) for value in inputs if (rows := onnx_graph.vocabulary(graph, value.name))},
        flops=lambda shapes: onnx_graph.flops(model, shapes),
        random=onnx_graph.random_operators(model),
    )
    if not found.outputs:
        raise unusable(path, "its graph has no output", fix=AGAIN)
    return found


def place(path: Path, version: Path) -> None:
    """Copy the file as model.onnx, and what its weights lie in under names of our own."""
    version.mkdir(parents=True)
    with parsing(path, ArtifactError, fix=AGAIN):
        model = _read(path)
    if any(external_tensors(model)):
        gather(path, model, version)
        (version / "model.onnx").write_bytes(model.SerializeToString())
    else:
        shutil.copyfile(path, version / "model.onnx")


def wider(artifact: Path, free: Mapping[str, str], draw: Draw, workload: Workload) -> Ranges:
    """Choose ranges of random requests that reach both sides of the graph's thresholds; {} keeps the default.

    `free` has the inputs that nothing bounds, with their datatypes.
    """
    heavy = (workload.flops or 0) > HEAVY_FLOPS
    together, count = max(1, min(workload.max_batch, thresholds.SAMPLES)), thresholds.SAMPLES
    return thresholds.ranges(
        artifact, free, draw, workload.request, together=1 if heavy else together, count=1 if heavy else count
    )


def _read(path: Path) -> "ModelProto":
    """Parse a file and check all that is checked before anything runs. Raises ArtifactError."""
    model = _parse(path)
    _check_versions(path, model)
    _check_operators(path, model)
    for tensor in external_tensors(model):
        kept(path, tensor)
    for tensor in model.graph.initializer:
        bytes_of(path, tensor)
    return model


def _parse(path: Path) -> "ModelProto":
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    size = path.stat().st_size
    if size > MAX_BYTES:
        raise unusable(path, f"it has {size / 2**30:.1f} GiB, and protobuf reads less than 2", fix=FIX)
    try:
        model = ModelProto.FromString(path.read_bytes())
    except DecodeError as error:
        message = "it is not an ONNX file, or a truncated one"
        raise unusable(path, message, fix="torch.onnx.export writes one") from error
    if not model.ir_version or not model.HasField("graph"):
        raise unusable(path, "it is not an ONNX file", fix="torch.onnx.export writes one")
    return model


def _check_versions(path: Path, model: "ModelProto") -> None:
    """Those that ONNX Runtime loads, which may be older than those of the package onnx."""
    onnxruntime = import_onnxruntime()
    opset = max((each.version for each in model.opset_import if each.domain in {"", "ai.onnx"}), default=0)
    for what, version, fix in (
        ("opset", opset, "export it with opset {} or older"),
        ("IR version", model.ir_version, "onnx.save it with model.ir_version = {}"),
    ):
        if version > (newest := _newest(what)):
            raise unusable(
                path,
                f"its {what} {version} is newer than {newest}, the newest of onnxruntime {onnxruntime.__version__}",
                fix=fix.format(newest),
            )


@functools.cache
def _newest(what: str) -> int:
    """The newest opset or IR version of ONNX Runtime, which does not say it: models of one node are tried."""
    import onnx
    from onnx import TensorProto, helper

    onnxruntime = import_onnxruntime()

    def loads(version: int) -> bool:
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "one", [x], [y])
        opset, ir = (version, LOADS_IR) if what == "opset" else (LOADS_OPSET, version)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        except Exception:  # their classes are not public
            return False
        return True

    most = onnx.defs.onnx_opset_version() if what == "opset" else onnx.IR_VERSION
    return next((version for version in range(most, 0, -1) if loads(version)), most)


def _check_operators(path: Path, model: "ModelProto") -> None:
    from onnx import NodeProto

    own = {(function.domain, function.name) for function in model.functions}
    nodes = [(node.domain, node.op_type) for node in parts(model, NodeProto)]
    if max(len(nodes), _expanded(path, model)) > MAX_NODES:
        count = f"{len(nodes):,}" if len(nodes) > MAX_NODES else f"{len(nodes):,}, with its functions' calls many more,"
        raise unusable(path, f"its graph has {count} nodes, and {MAX_NODES:,} are the most", fix=AGAIN)
    called = set(nodes)
    custom = {each for each in called if each[0] not in STANDARD} - own
    for found, what in (
        (custom, "custom operators ({}), and servemark loads no libraries of operators"),
        (called & REACHING_OUT, "operators that run other engines' binaries ({})"),
    ):
        if found:
            names = shown(", ".join(f"{domain}::{kind}" for domain, kind in sorted(found)))[1:-1]
            raise unusable(
                path,
                f"it has {what.format(names)}",
                fix="export it without them, or serve it yourself: `servemark run NAME --url URL`",
            )


def _expanded(path: Path, model: "ModelProto") -> int:
    """Count the nodes once each call of a function is its body, to MAX_NODES + 1: functions of functions double."""
    from onnx import NodeProto

    calls = {
        (function.domain, function.name): [(node.domain, node.op_type) for node in parts(function, NodeProto)]
        for function in model.functions
    }
    sizes: dict[tuple[str, str], int] = {}
    try:
        for name in TopologicalSorter(
            {name: [each for each in calls[name] if each in calls] for name in calls}
        ).static_order():
            sizes[name] = min(sum(sizes.get(each, 1) for each in calls[name]), MAX_NODES + 1)
    except CycleError as error:
        raise unusable(path, f"its function {error.args[1][0][1]!r} calls itself", fix=AGAIN) from None
    return sum(sizes.get((node.domain, node.op_type), 1) for node in parts(model.graph, NodeProto))


def _port(path: Path, value: "ValueInfoProto", side: str) -> TensorInfo:
    from onnx import TensorProto

    if not value.type.HasField("tensor_type"):
        raise unusable(
            path,
            f"its {side} {value.name!r} is not a tensor but {value.type.WhichOneof('value') or 'a value without type'}",
            fix="export it with tensors alone (skl2onnx: options={'zipmap': False})",
        )
    tensor = value.type.tensor_type
    if not isinstance(value.name, str):  # text that is not UTF-8 stays bytes
        raise unusable(path, f"its {side} {value.name[:MAX_SHOWN]!r} has a name that is not a text", fix=AGAIN)
    known = tensor.elem_type in TensorProto.DataType.values()
    kind = TensorProto.DataType.Name(tensor.elem_type) if known else f"of the unknown type {tensor.elem_type}"
    if kind not in DATATYPES:
        raise unusable(
            path,
            f"its {side} {value.name!r} is {kind}, and a workload has {', '.join(DATATYPES)}",
            fix="serve it yourself: `servemark run NAME --url URL` knows all of the protocol's datatypes",
        )
    if not tensor.HasField("shape"):
        raise unusable(path, f"its {side} {value.name!r} has no shape", fix="onnx.shape_inference.infer_shapes")
    sizes = (dim.dim_value if dim.HasField("dim_value") else OPEN for dim in tensor.shape.dim)
    return TensorInfo(value.name, DATATYPES[kind], tuple(size if size > 0 else OPEN for size in sizes))
