"""Description of SavedModels, the allowed parts of their graphs, and the parts that an import never runs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exporters.tensorflow
from exporters.importing import saved_model
from exporters.importing.tensorflow_graph import COMPUTING
from servemark.errors import ArtifactError
from servemark.frameworks.tensorflow import import_tensorflow
from servemark.workload import Tensor, get
from servemark.workload.spec import Workload

Answer = Callable[[Any], Any]


def saved(path: Path, function: Answer, signature: str = "serving_default", **held: Any) -> Path:
    tf: Any = import_tensorflow()
    module = tf.Module()
    for name, value in held.items():
        setattr(module, name, value)
    module.answer = tf.function(function, input_signature=[tf.TensorSpec([None, 6], tf.float32, "x")])
    tf.saved_model.save(module, str(path), signatures={signature: module.answer})
    return path


def parsed(path: Path) -> Any:
    import_tensorflow()
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    return SavedModel.FromString((path / "saved_model.pb").read_bytes())


def answered(path: Path, version: Path) -> Any:
    """Return the answer of an import's copy to ones."""
    saved_model.describe(path)
    saved_model.place(path, version)
    workload: Workload = replace(get("ranking_tiny"), outputs=(Tensor("y", "FP32", (6,)),))
    run = exporters.tensorflow.load(version / "model.savedmodel", workload)
    return run({"x": np.ones((2, 6), np.float32)})["y"]


def test_tensors_are_read(tmp_path: Path) -> None:
    found = saved_model.describe(saved(tmp_path / "good", lambda x: {"y": x[:, :2]}))
    assert [(port.name, port.sizes) for port in (*found.inputs, *found.outputs)] == [("x", (-1, 6)), ("y", (-1, 2))]
    with pytest.raises(ArtifactError, match=r"it has no signature serving_default, but .*other"):
        saved_model.describe(saved(tmp_path / "other", lambda x: {"y": x}, "other"))
    (tmp_path / "good" / "saved_model.pb").write_bytes(b"\xff damaged")
    with pytest.raises(ArtifactError, match=r"saved_model\.pb is damaged"):
        saved_model.describe(tmp_path / "good")


def printing(tf: Any, target: Path, x: Any) -> Any:
    tf.print("ssh-rsa AAAA", output_stream=f"file://{target}")
    return x


def saving(tf: Any, target: Path, x: Any) -> Any:
    tf.raw_ops.SaveV2(prefix=str(target), tensor_names=["x"], shape_and_slices=[""], tensors=[x])
    return x


def summarising(tf: Any, target: Path, x: Any) -> Any:
    to: dict[str, Any] = {"logdir": str(target), "max_queue": 1, "flush_millis": 1, "filename_suffix": ".bashrc"}
    tf.raw_ops.CreateSummaryFileWriter(writer=tf.raw_ops.SummaryWriter(), **to)
    return x


def lines(tf: Any, target: Path, x: Any) -> Any:
    found = tf.data.TextLineDataset(str(target)).reduce(0, lambda length, line: length + tf.strings.length(line))
    return x + tf.cast(found, tf.float32)


def whole_file(tf: Any, target: Path, x: Any) -> Any:
    raw = tf.raw_ops
    queue = raw.FIFOQueueV2(component_types=[tf.string])
    raw.QueueEnqueueV2(handle=queue, components=[str(target)])
    value = raw.ReaderReadV2(reader_handle=raw.WholeFileReaderV2(), queue_handle=queue).value
    return x + tf.cast(tf.strings.length(value), tf.float32)


def reading(tf: Any, target: Path, x: Any) -> Any:
    return x + tf.cast(tf.strings.length(tf.io.read_file(str(target))), tf.float32)


def reading_in_a_loop(tf: Any, target: Path, x: Any) -> Any:
    """In the body of a loop in a branch, which are functions of their own."""

    def looped() -> Any:
        return tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, reading(tf, target, y)), (0, x))[1]

    return tf.cond(tf.reduce_sum(x) > 0, looped, lambda: x)


def table(tf: Any, target: Path, x: Any) -> Any:
    handle, raw = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64), tf.raw_ops
    raw.InitializeTableFromTextFileV2(table_handle=handle, filename=str(target), key_index=-2, value_index=-1)
    return x + tf.cast(raw.LookupTableSizeV2(table_handle=handle), tf.float32)


def mapped(tf: Any, target: Path, x: Any) -> Any:
    return x + tf.raw_ops.ImmutableConst(dtype=tf.float32, shape=[6], memory_region_name=str(target))


def restoring(tf: Any, target: Path, x: Any) -> Any:
    said: dict[str, Any] = {"tensor_names": ["a"], "shape_and_slices": [""], "dtypes": [tf.float32]}
    return x + tf.raw_ops.RestoreV2(prefix=str(target), **said)[0][:1]


def in_python(tf: Any, target: Path, x: Any) -> Any:
    return tf.ensure_shape(tf.py_function(lambda y: target.write_text("") and y, [x], tf.float32), x.shape)


Attack = Callable[[Any, Path, Any], Any]
ATTACKS: dict[Attack, str] = {
    printing: "PrintV2",
    saving: "SaveV2",
    summarising: "SummaryWriter|CreateSummaryFileWriter",
    lines: "TextLineDataset|ReduceDataset",
    whole_file: "FIFOQueueV2|QueueEnqueueV2|ReaderReadV2|WholeFileReaderV2",
    reading: "ReadFile",
    reading_in_a_loop: "ReadFile",
    table: "InitializeTableFromTextFileV2",
    mapped: "ImmutableConst",
    restoring: "RestoreV2",
    in_python: "EagerPyFunc",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_graphs_that_reach_out_are_refused(tmp_path: Path, attack: Attack) -> None:
    tf: Any = import_tensorflow()
    target = tmp_path / "target"
    path = saved(tmp_path / "bad", lambda x: {"y": attack(tf, target, x)}, weight=tf.Variable(2.0))
    with pytest.raises(ArtifactError, match=rf"its graph does more than compute \(.*({ATTACKS[attack]})") as error:
        saved_model.describe(path)
    with pytest.raises(ArtifactError):
        saved_model.place(path, tmp_path / "1")
    assert error.value.fix
    assert not target.exists()


def test_a_second_graph_and_a_function_that_nobody_calls_are_left_behind(tmp_path: Path) -> None:
    tf = import_tensorflow()
    path = saved(tmp_path / "good", lambda x: {"y": x})
    bad = saved(tmp_path / "bad", lambda x: {"y": reading(tf, tmp_path / "target", x)})
    good, other = map(parsed, (path, bad))
    good.meta_graphs.append(other.meta_graphs[0])
    function = next(
        each
        for each in other.meta_graphs[0].graph_def.library.function
        if any(n.op == "ReadFile" for n in each.node_def)
    )
    function.signature.name = "unused"
    good.meta_graphs[0].graph_def.library.function.append(function)
    (path / "saved_model.pb").write_bytes(good.SerializeToString())
    np.testing.assert_allclose(answered(path, tmp_path / "1"), np.ones((2, 6)))
    [graph] = parsed(tmp_path / "1" / "model.savedmodel").meta_graphs
    assert "unused" not in {each.signature.name for each in graph.graph_def.library.function}


def test_nothing_but_the_graph_and_its_variables_is_copied(tmp_path: Path) -> None:
    """The attack: an asset that is a link to a file of the user's, a library, a graph of another form."""
    tf: Any = import_tensorflow()
    weight = tf.Variable(np.full((6,), 3, np.float32))
    path = saved(tmp_path / "good", lambda x: {"y": x * weight}, weight=weight)
    (path / "assets").mkdir(exist_ok=True)
    (path / "assets" / "words").symlink_to("/etc/passwd")
    (path / "libtriton_tensorflow.so").write_bytes(b"code")
    (path / "saved_model.cpb").write_bytes(b"chunks")
    np.testing.assert_allclose(answered(path, tmp_path / "1"), np.full((2, 6), 3))
    files = sorted(each.name for each in (tmp_path / "1").rglob("*") if not each.is_dir())
    assert files == ["saved_model.pb", "variables.data-00000-of-00001", "variables.index"]
    [graph] = parsed(tmp_path / "1" / "model.savedmodel").meta_graphs
    called = {node.op for each in graph.graph_def.library.function for node in each.node_def}
    assert "RestoreV2" in called
    assert called <= COMPUTING | {"RestoreV2"} | {each.signature.name for each in graph.graph_def.library.function}


def test_variables_that_lie_elsewhere_are_refused(tmp_path: Path) -> None:
    tf: Any = import_tensorflow()
    weight = tf.Variable(2.0)
    path = saved(tmp_path / "model", lambda x: {"y": x * weight}, weight=weight)
    (path / "variables").rename(tmp_path / "elsewhere")
    (path / "variables").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactError, match="is not a file, or lies outside its folder"):
        saved_model.place(path, tmp_path / "1")


def test_a_restore_of_the_loader_is_no_way_to_read_another_file(tmp_path: Path) -> None:
    """The attack: the function that restores is called with a name of the graph's own."""
    tf: Any = import_tensorflow()
    weight = tf.Variable(2.0)
    path = saved(tmp_path / "model", lambda x: {"y": x * weight}, weight=weight)
    model = parsed(path)
    graph = model.meta_graphs[0]
    restore = next(node for node in graph.graph_def.node if node.name == graph.saver_def.restore_op_name)
    name = graph.graph_def.node.add(name="chosen", op="Const")
    name.attr["dtype"].type = tf.string.as_datatype_enum
    name.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("/etc/other"))
    restore.input[0] = "chosen"
    (path / "saved_model.pb").write_bytes(model.SerializeToString())
    with pytest.raises(ArtifactError, match=r"does more than compute \(RestoreV2\)"):
        saved_model.describe(path)


def test_models_with_variables_tables_loops_and_gradients_answer_as_before(tmp_path: Path) -> None:
    tf: Any = import_tensorflow()
    weight = tf.Variable(np.full((6,), 3, np.float32))
    values = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2], tf.int64), tf.constant([5.0, 7.0]))
    numbers = tf.lookup.StaticHashTable(values, 0.0)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def squared(x: Any) -> Any:
        return x * x, lambda upstream: upstream * 2 * x

    def function(x: Any) -> Any:
        y = tf.cond(tf.reduce_sum(x) > 0, lambda: x * weight, lambda: x)
        y = tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, y + 1), (0, y))[1]
        return {"y": squared(y) + numbers.lookup(tf.constant([2], tf.int64))}

    path = saved(tmp_path / "model", function, weight=weight, numbers=numbers)
    np.testing.assert_allclose(answered(path, tmp_path / "1"), np.full((2, 6), 32))


def test_models_of_tensorflow_1_answer_as_before(tmp_path: Path) -> None:
    v1 = import_tensorflow().compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(v1.float32, [None, 6], "x")
        y = x * v1.get_variable("w", initializer=np.full((6,), 3, np.float32), use_resource=False) + v1.get_variable(
            "b", initializer=np.full((6,), 2, np.float32), use_resource=True
        )
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path / "model"), {"x": x}, {"y": y})
    np.testing.assert_allclose(answered(tmp_path / "model", tmp_path / "1"), np.full((2, 6), 5))
