"""A model small enough to check by hand, written for each engine: SCORES = X W + b, TOTAL = sum of a row of SCORES."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]

NAMES = ["SCORES", "TOTAL"]
W: FloatArray = np.arange(24, dtype=np.float32).reshape(8, 3) / 10
B: FloatArray = np.array([1, -2, 3], np.float32)

CONFIG = """name: "{model}"
backend: "{backend}"
max_batch_size: 8
input [{{name: "X" data_type: TYPE_FP32 dims: [8]}}]
output [{{name: "SCORES" data_type: TYPE_FP32 dims: [3]}}, {{name: "TOTAL" data_type: TYPE_FP32 dims: [1]}}]
instance_group [{{count: {instances} kind: KIND_CPU}}]
dynamic_batching {{max_queue_delay_microseconds: {queue_delay_us}}}
parameters [{{key: "intra_op_thread_count" value: {{string_value: "1"}}}}]
"""


def expected(x: FloatArray) -> dict[str, FloatArray]:
    """What the model answers, by numpy."""
    scores = x @ W + B
    return {"SCORES": scores, "TOTAL": scores.sum(axis=1, keepdims=True)}


def artifact_of(repository: Path, engine: str) -> Path:
    """Where the model file of an engine lies."""
    return repository / f"affine_{engine}" / "1" / {"onnxruntime": "model.onnx", "pytorch": "model.pt2"}[engine]


def affine(repository: Path, engine: str, *, queue_delay_us: int = 0, instances: int = 1) -> Path:
    """Write the model into a repository for one engine and return its artifact."""
    artifact = artifact_of(repository, engine)
    artifact.parent.mkdir(parents=True)
    {"onnxruntime": _write_onnx, "pytorch": _write_torch}[engine](artifact)
    config = CONFIG.format(model=artifact.parts[-3], backend=engine, queue_delay_us=queue_delay_us, instances=instances)
    (artifact.parent.parent / "config.pbtxt").write_text(config)
    return artifact


def _write_onnx(path: Path) -> None:
    from onnx import TensorProto, checker, helper, numpy_helper, save

    nodes = [
        helper.make_node("Gemm", ["X", "W", "B"], ["SCORES"]),
        helper.make_node("ReduceSum", ["SCORES", "axes"], ["TOTAL"], keepdims=1),
    ]
    tensors: dict[str, npt.NDArray[Any]] = {"W": W, "B": B, "axes": np.array([1], np.int64)}
    graph = helper.make_graph(
        nodes,
        "affine",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["batch", 8])],
        [
            helper.make_tensor_value_info("SCORES", TensorProto.FLOAT, ["batch", 3]),
            helper.make_tensor_value_info("TOTAL", TensorProto.FLOAT, ["batch", 1]),
        ],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    save(model, path)


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
