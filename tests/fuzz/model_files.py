"""Model files that others made: what `servemark import` reads of them before anything runs."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

from exporters.importing import onnx_file, saved_model
from exporters.importing.onnx_graph import parts
from exporters.importing.tensorflow_graph import COMPUTING
from servemark.errors import ArtifactError
from servemark.frameworks.tensorflow import import_tensorflow
from tests.fuzz.damage import damaged
from tests.fuzz.target import Target
from tests.support.own_models import dense, lookup

_FOLDER = tempfile.TemporaryDirectory(prefix="servemark-fuzz-")
LIBRARY = "libtriton_onnxruntime.so"


def _emptied(name: str) -> Path:
    """A folder of this name, without what the previous input left."""
    folder = Path(_FOLDER.name, name)
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def read_onnx(data: bytes) -> None:
    """An ONNX file with weights in files beside it: what is taken names no file but ours."""
    folder, version = _emptied("onnx"), _emptied("placed")
    folder.mkdir()
    path = folder / "m.onnx"
    path.write_bytes(data)
    for name in (LIBRARY, "w"):
        (folder / name).write_bytes(bytes(96))
    found = onnx_file.describe(path)
    found.flops({port.name: tuple(max(size, 1) for size in port.sizes) for port in found.inputs})
    onnx_file.place(path, version)
    ours = {f"weights_{number}.bin" for number in range(2)}
    assert {each.name for each in version.iterdir()} <= {"model.onnx", *ours}
    model = onnx.load(version / "model.onnx", load_external_data=False)
    for tensor in parts(model, TensorProto):
        named = {entry.value for entry in tensor.external_data if entry.key == "location"}
        assert named <= ours
        assert all((version / name).is_file() for name in named)


def read_saved_model(data: bytes) -> None:
    """A SavedModel's graph: what is taken computes, and restores its variables."""
    folder, version = _emptied("saved"), _emptied("taken")
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(data)
    saved_model.describe(folder)
    saved_model.place(folder, version)
    [graph] = _parsed((version / "model.savedmodel" / "saved_model.pb").read_bytes()).meta_graphs
    library = graph.graph_def.library.function
    allowed = COMPUTING | {"RestoreV2"} | {each.signature.name for each in library}
    bodies = [graph.graph_def.node, *(each.node_def for each in library)]
    assert {node.op for body in bodies for node in body} <= allowed


def _parsed(data: bytes) -> Any:
    import_tensorflow()
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    return SavedModel.FromString(data)


def _onnx_files() -> list[bytes]:
    folder = Path(_FOLDER.name, "right")
    inside = [dense(folder / "dense.onnx"), lookup(folder / "lookup.onnx")]
    model = onnx.load(inside[0])
    onnx.save(model, folder / "outside.onnx", save_as_external_data=True, location=LIBRARY, size_threshold=0)
    branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["z"])],
        "branch",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
    )
    model.graph.node.add().CopyFrom(helper.make_node("If", ["b"], ["z"], then_branch=branch, else_branch=branch))
    nested = folder / "nested.onnx"
    nested.write_bytes(model.SerializeToString())
    return [path.read_bytes() for path in (*inside, folder / "outside.onnx", nested)]


def _saved_models() -> list[bytes]:
    tf: Any = import_tensorflow()
    weight = tf.Variable(2.0)
    found = []
    for name, function in (
        ("plain", lambda x: {"y": tf.cond(tf.reduce_sum(x) > 0, lambda: x * weight, lambda: x)}),
        ("reading", lambda x: {"y": x + tf.cast(tf.strings.length(tf.io.read_file("/etc/hostname")), tf.float32)}),
    ):
        module = tf.Module()
        module.weight = weight
        module.answer = tf.function(function, input_signature=[tf.TensorSpec([None, 6], tf.float32, "x")])
        folder = Path(_FOLDER.name, name)
        tf.saved_model.save(module, str(folder), signatures=module.answer)
        found.append((folder / "saved_model.pb").read_bytes())
    return found


ONNX_WORDS = (b"location", b"offset", b"../../etc/passwd", b"/etc/passwd", b"w", b"\x70\x01", b"EPContext")
TENSORFLOW_WORDS = (b"ReadFile", b"SaveV2", b"RestoreV2", b"PyFunc", b"StatefulPartitionedCall", b"^x", b":0")

TARGETS = (
    Target(
        "onnx_import",
        st.deferred(lambda: damaged(st.sampled_from(_onnx_files()), ONNX_WORDS)),
        read_onnx,
        (ArtifactError,),
        examples=100,
    ),
    Target(
        "saved_model_import",
        st.deferred(lambda: damaged(st.sampled_from(_saved_models()), TENSORFLOW_WORDS)),
        read_saved_model,
        (ArtifactError,),
        examples=40,
    ),
)
