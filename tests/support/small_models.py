"""Models small enough to check by hand, written straight into a model repository.

`affine`, for each engine: SCORES = X W + b, TOTAL = sum of a row of SCORES. `lookup`: ROW = TABLE[ID], which fails for
an ID outside the table. `passthrough`: one input and output of each datatype, unchanged. `total`: the sum of an input
whose length varies.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servemark.frameworks.tensorflow import import_tensorflow
from servemark.workload.tensor import NUMPY_DTYPES

if TYPE_CHECKING:
    from onnx import NodeProto

FloatArray = npt.NDArray[np.float32]

NAMES = ["SCORES", "TOTAL"]
W: FloatArray = np.arange(24, dtype=np.float32).reshape(8, 3) / 10
B: FloatArray = np.array([1, -2, 3], np.float32)

TABLE: FloatArray = np.arange(12, dtype=np.float32).reshape(4, 3)
ARTIFACTS = {
    "onnxruntime": "model.onnx",
    "openvino": "model.xml",
    "pytorch": "model.pt2",
    "tensorflow": "model.savedmodel",
}
DATATYPES = ["BOOL", "UINT8", "INT8", "INT32", "INT64", "FP16", "FP32", "FP64"]

CONFIG = """name: "{model}"
backend: "{backend}"
max_batch_size: 8
input [{inputs}]
output [{outputs}]
instance_group [{{count: {instances} kind: KIND_CPU}}]
dynamic_batching {{max_queue_delay_microseconds: {queue_delay_us}}}
parameters [{{key: "intra_op_thread_count" value: {{string_value: "1"}}}}]
"""


def expected(x: FloatArray) -> dict[str, FloatArray]:
    """Compute the model's answer by numpy."""
    scores = x @ W + B
    return {"SCORES": scores, "TOTAL": scores.sum(axis=1, keepdims=True)}


def artifact_of(repository: Path, engine: str) -> Path:
    """Return the path of an engine's model file."""
    return repository / f"affine_{engine}" / "1" / ARTIFACTS[engine]


def affine(repository: Path, engine: str, *, queue_delay_us: int = 0, instances: int = 1) -> Path:
    """Write the model into a repository for one engine and return its artifact."""
    artifact = artifact_of(repository, engine)
    artifact.parent.mkdir(parents=True)
    WRITERS[engine](artifact)
    _configure(artifact, engine, ["X FP32 8"], ["SCORES FP32 3", "TOTAL FP32 1"], queue_delay_us, instances)
    return artifact


def lookup(repository: Path) -> str:
    """Write the model for ONNX Runtime and return its name."""
    from onnx import TensorProto, helper, numpy_helper

    artifact = repository / "lookup_onnxruntime" / "1" / "model.onnx"
    _save(
        artifact,
        [helper.make_node("Gather", ["TABLE", "ID"], ["ROWS"]), helper.make_node("Squeeze", ["ROWS", "axes"], ["ROW"])],
        [helper.make_tensor_value_info("ID", TensorProto.INT64, ["batch", 1])],
        [helper.make_tensor_value_info("ROW", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(TABLE, "TABLE"), numpy_helper.from_array(np.array([1], np.int64), "axes")],
    )
    _configure(artifact, "onnxruntime", ["ID INT64 1"], ["ROW FP32 3"])
    return artifact.parts[-3]


def passthrough(repository: Path) -> str:
    """Write the model for ONNX Runtime and return its name; its tensors are IN_<datatype> and OUT_<datatype>, 2 x 3."""
    from onnx import helper

    artifact = repository / "passthrough_onnxruntime" / "1" / "model.onnx"
    kinds = {name: helper.np_dtype_to_tensor_dtype(np.dtype(NUMPY_DTYPES[name])) for name in DATATYPES}
    _save(
        artifact,
        [helper.make_node("Identity", [f"IN_{name}"], [f"OUT_{name}"]) for name in DATATYPES],
        [helper.make_tensor_value_info(f"IN_{name}", kind, ["batch", 2, 3]) for name, kind in kinds.items()],
        [helper.make_tensor_value_info(f"OUT_{name}", kind, ["batch", 2, 3]) for name, kind in kinds.items()],
        [],
    )
    inputs, outputs = ([f"{side}_{name} {name} 2,3" for name in DATATYPES] for side in ("IN", "OUT"))
    _configure(artifact, "onnxruntime", inputs, outputs)
    return artifact.parts[-3]


def total(repository: Path) -> str:
    """Write the model for ONNX Runtime and return its name: TOTAL = sum of X, whose length varies."""
    from onnx import TensorProto, helper, numpy_helper

    artifact = repository / "total_onnxruntime" / "1" / "model.onnx"
    _save(
        artifact,
        [helper.make_node("ReduceSum", ["X", "axes"], ["TOTAL"], keepdims=1)],
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["batch", "length"])],
        [helper.make_tensor_value_info("TOTAL", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(np.array([1], np.int64), "axes")],
    )
    _configure(artifact, "onnxruntime", ["X FP32 -1"], ["TOTAL FP32 1"])
    return artifact.parts[-3]


def _configure(
    artifact: Path, backend: str, inputs: list[str], outputs: list[str], queue_delay_us: int = 0, instances: int = 1
) -> None:
    """Write config.pbtxt; a tensor is "NAME DATATYPE DIMS"."""

    def tensors(lines: list[str]) -> str:
        return ", ".join('{{name: "{}" data_type: TYPE_{} dims: [{}]}}'.format(*line.split()) for line in lines)

    config = CONFIG.format(
        model=artifact.parts[-3],
        backend=backend,
        inputs=tensors(inputs),
        outputs=tensors(outputs),
        queue_delay_us=queue_delay_us,
        instances=instances,
    )
    (artifact.parent.parent / "config.pbtxt").write_text(config)


def _save(path: Path, nodes: "list[NodeProto]", *tensors: Any) -> None:
    from onnx import checker, helper, save

    graph = helper.make_graph(nodes, path.parts[-3], *tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(model, path)


def _write_onnx(path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    constants: dict[str, npt.NDArray[Any]] = {"W": W, "B": B, "axes": np.array([1], np.int64)}
    _save(
        path,
        [
            helper.make_node("Gemm", ["X", "W", "B"], ["SCORES"]),
            helper.make_node("ReduceSum", ["SCORES", "axes"], ["TOTAL"], keepdims=1),
        ],
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["batch", 8])],
        [
            helper.make_tensor_value_info("SCORES", TensorProto.FLOAT, ["batch", 3]),
            helper.make_tensor_value_info("TOTAL", TensorProto.FLOAT, ["batch", 1]),
        ],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )


def write_openvino(path: Path, write_onnx: Callable[[Path], None] = _write_onnx) -> None:
    """Write what OpenVINO makes of an ONNX file."""
    import openvino

    source = path.with_name("model.onnx")
    write_onnx(source)
    openvino.save_model(openvino.Core().read_model(str(source)), str(path), compress_to_fp16=False)
    source.unlink()


def _write_torch(path: Path) -> None:
    import torch

    class Affine(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 3)
            self.linear.weight.data = torch.from_numpy(W.T.copy())
            self.linear.bias.data = torch.from_numpy(B.copy())

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            scores = self.linear(x)
            return scores, scores.sum(dim=1, keepdim=True)

    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(Affine().eval(), (torch.zeros(2, 8),), dynamic_shapes=({0: batch},))
    torch.export.save(program, path)


def _write_tensorflow(path: Path) -> None:
    tf: Any = import_tensorflow()
    module = tf.Module()

    def forward(X: Any) -> dict[str, Any]:  # noqa: N803 - the input's name
        scores = tf.matmul(X, W) + B
        return {"SCORES": scores, "TOTAL": tf.reduce_sum(scores, axis=1, keepdims=True)}

    module.forward = tf.function(forward, input_signature=[tf.TensorSpec([None, 8], tf.float32, "X")])
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.forward})


WRITERS = {
    "onnxruntime": _write_onnx,
    "openvino": write_openvino,
    "pytorch": _write_torch,
    "tensorflow": _write_tensorflow,
}
