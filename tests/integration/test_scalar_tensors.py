"""One value per sample, in and out, against a real Triton: each protocol, with and without batches.

The model is a classifier: a class LABEL and its SCORES of X and a threshold T. `BATCHED` is exported as any workload
is. `ALONE` has no batches, so T and LABEL have no dimension: torch traces no such module for us, and its files are
written here for each engine. The other engines are asked for it without a Triton (tests/servers/engines).
"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import exporters
from exporters.pipeline.config_pbtxt import render
from servemark.frameworks.tensorflow import import_tensorflow
from servemark.repository.entry import Entry
from servemark.workload import Arrays, Sample, Tensor, Workload, get
from servers import Server, open_server
from servers.engines import engine_module
from tests.support.shared_load import WIRES, batches, outputs, served
from tests.support.small_models import write_openvino
from tests.support.triton import START_S, needs_triton

if TYPE_CHECKING:
    from torch import nn

WEIGHT = np.array([[1, -1], [0.5, 0], [0, 2]], np.float32)
INPUTS = Tensor("x", "FP32", (3,)), Tensor("t", "FP32", ())
OUTPUTS = Tensor("label", "INT64", ()), Tensor("scores", "FP32", (2,))


def expected(inputs: Arrays) -> dict[str, Any]:
    """Compute the answer by numpy."""
    x, t = (np.asarray(inputs[each.name], np.float32) for each in INPUTS)
    scores = x @ WEIGHT + t[..., None]
    return {"label": scores.argmax(-1), "scores": scores}


def _samples(rng: np.random.Generator) -> Iterator[Sample]:
    while True:
        yield {"x": rng.random(3, np.float32), "t": np.array(rng.random(), np.float32)}


def _build() -> "nn.Module":
    import torch

    class Classifier(torch.nn.Module):
        """[B, 3] and [B] to [B] and [B, 2]; also [3] and a scalar to a scalar and [2]."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.from_numpy(WEIGHT.copy()))

        def forward(self, x: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            scores = x @ self.weight + t.unsqueeze(-1)
            return scores.argmax(-1), scores

    return Classifier().eval()


def _workload(name: str, most: int) -> Workload:
    changes: dict[str, Any] = {"inputs": INPUTS, "outputs": OUTPUTS, "samples": _samples, "parameters": WEIGHT.size}
    return dataclasses.replace(get("ncf_tiny"), name=name, max_batch=most, build=_build, **changes)


BATCHED, ALONE = _workload("batched", 8), _workload("alone", 0)


def write_alone(repository: Path, engine: str) -> Entry:
    """Write the model without batches into a repository for one engine."""
    entry = Entry(repository, ALONE.name, engine)
    entry.version.mkdir(parents=True)
    artifact = engine_module(engine).ARTIFACT
    _WRITERS[engine](entry.version / artifact)
    entry.config.write_text(render(ALONE, model=entry.model, engine=engine, artifact=artifact))
    return entry


def _write_onnx(path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper, save

    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["product"]),
        helper.make_node("Add", ["product", "t"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=0, keepdims=0),
    ]
    inputs = [helper.make_tensor_value_info(each.name, TensorProto.FLOAT, each.shape) for each in INPUTS]
    kinds = TensorProto.INT64, TensorProto.FLOAT
    outputs = [helper.make_tensor_value_info(o.name, kind, o.shape) for o, kind in zip(OUTPUTS, kinds, strict=True)]
    graph = helper.make_graph(nodes, "alone", inputs, outputs, [numpy_helper.from_array(WEIGHT, "W")])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def _write_torch(path: Path) -> None:
    import torch

    torch.export.save(torch.export.export(_build(), (torch.zeros(3), torch.tensor(0.5))), path)


def _write_tensorflow(path: Path) -> None:
    tf: Any = import_tensorflow()
    module = tf.Module()

    def forward(x: Any, t: Any) -> dict[str, Any]:
        scores = tf.linalg.matvec(WEIGHT.T, x) + t
        return {"label": tf.argmax(scores), "scores": scores}

    asked = [tf.TensorSpec(each.shape, tf.float32, each.name) for each in INPUTS]
    module.forward = tf.function(forward, input_signature=asked)
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.forward})


_WRITERS: dict[str, Callable[[Path], None]] = {
    "onnxruntime": _write_onnx,
    "openvino": partial(write_openvino, write_onnx=_write_onnx),
    "pytorch": _write_torch,
    "tensorflow": _write_tensorflow,
}
ENGINE = "onnxruntime"
BY_HAND = "by_hand"
DISTINCT = 5

pytestmark = [needs_triton, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    repository = tmp_path_factory.mktemp("model_repo")
    entries = [write_alone(repository, ENGINE), Entry(repository, BATCHED.name, ENGINE)]
    exporters.export(BATCHED, ENGINE, repository)
    config = entries[-1].config.read_text().replace(f'"{entries[-1].model}"', f'"{BY_HAND}"')
    entries[-1].link(repository / BY_HAND, config)
    models = [*(each.model for each in entries), BY_HAND]
    with open_server("embedded", repository, models, start_timeout_s=START_S) as triton:
        yield triton


@pytest.mark.parametrize("memory", ["none", "system"])
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("asked", [BATCHED, ALONE], ids=lambda asked: asked.name)
def test_each_answer_is_right(server: Server, asked: Workload, wire: str, memory: str) -> None:
    """Triton itself adds and removes the dimension where there are batches; without them our backend does."""
    batch = 3 if asked.batched else 1
    found = outputs(server, asked, wire, memory, batch, distinct=DISTINCT)
    assert sorted(found) == [*range(DISTINCT)]
    for number, inputs in enumerate(batches(asked, batch, DISTINCT)):
        wanted = expected(inputs)
        for name, (kind, shape, raw) in found[number].items():
            assert shape == wanted[name].shape or not asked.batched
            np.testing.assert_allclose(np.frombuffer(raw, kind), wanted[name].ravel(), rtol=1e-6)


@pytest.mark.parametrize("wire", ["http", "grpc"])
def test_an_entry_written_by_hand_has_the_shapes_that_triton_tells(server: Server, wire: str) -> None:
    asked = served(server, BY_HAND, wire)
    assert [tensor.shape for tensor in (*asked.inputs, *asked.outputs)] == [(3,), (1,), (1,), (2,)]
    found = outputs(server, asked, wire, "system", 2, distinct=DISTINCT)
    assert {each["label"][1] for each in found.values()} == {(2, 1)}
