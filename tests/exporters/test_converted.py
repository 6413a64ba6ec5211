"""OpenVINO and TensorFlow, converted from the ONNX file: their engines answer what eager PyTorch answers."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import exporters
from servemark.errors import ArtifactError
from servemark.frameworks.tensorflow import import_tensorflow
from servemark.repository.entry import Entry
from servemark.workload import Arrays, get, names
from servemark.workload.agreement import compare_outputs, scale_of
from tests.support.exporting import loaded
from tests.support.onnx_models import model
from tests.support.zoo import LIKE_ANOTHER, tiny_of

QUICK = {"cyclegan", "deepspeech2", "din", "enas", "nmt_greedy", "spatial_transformer", "ssd300"}
"""One of each kind; what else TensorFlow runs is tested in the slow suite, since it takes minutes."""
CONVERTED = [
    pytest.param(name, engine, marks=[] if name in quick else pytest.mark.slow)
    for engine, quick in (("openvino", set(names()) - LIKE_ANOTHER - {"summarization"}), ("tensorflow", QUICK))
    for name in names()
]
VARYING = [
    pytest.param(name, engine, marks=[] if engine == "openvino" or name in QUICK else pytest.mark.slow)
    for name in names()
    for engine in ("openvino", "tensorflow")
    if any(tensor.variable_axes for tensor in get(name).inputs)
]


@pytest.mark.parametrize(("name", "engine"), CONVERTED)
def test_engine_answers_what_eager_pytorch_answers(exported: Any, name: str, engine: str) -> None:
    """Rows and a batch size that the export's own check has not seen."""
    workload = tiny_of(name)
    entry = exported(workload.name, engine)
    golden = entry.read_golden()
    answer = loaded(entry).run({key: array[6:13] for key, array in golden.inputs.items()})
    for tensor in workload.outputs:
        found, reference = answer[tensor.name], golden.outputs[tensor.name][6:13]
        assert (found.dtype, found.shape) == (tensor.dtype, reference.shape)
        assert compare_outputs(found, reference, workload.agreement, scale_of(golden.outputs[tensor.name])).agrees


@pytest.mark.parametrize(("name", "engine"), VARYING)
def test_sizes_that_vary_are_not_baked_in(exported: Any, name: str, engine: str) -> None:
    workload = tiny_of(name)
    entry, source = (exported(workload.name, each) for each in (engine, "onnxruntime"))
    longer: Arrays = {
        tensor.name: np.pad(
            entry.read_golden().inputs[tensor.name][:2],
            [(0, 5 if axis in tensor.variable_axes else 0) for axis in range(len(tensor.shape) + 1)],
        )
        for tensor in workload.inputs
    }
    answer, reference = loaded(entry).run(longer), loaded(source).run(longer)
    assert all(compare_outputs(answer[key], reference[key], workload.agreement).agrees for key in reference)


@pytest.fixture
def ncf(exported: Any, tmp_path: Path) -> Callable[[str], Entry]:
    """Converts the smallest workload in a precision."""
    source = exported("ncf_tiny", "onnxruntime").folder
    (tmp_path / source.name).symlink_to(source)

    def made(precision: str) -> Entry:
        exporters.export(get("ncf_tiny"), "openvino", tmp_path, precision=precision)
        return Entry(tmp_path, "ncf_tiny", "openvino", precision)

    return made


def test_openvino_fp16_stores_halves_and_computes_in_fp32(ncf: Callable[[str], Entry]) -> None:
    half, whole = ncf("fp16"), ncf("fp32")
    sizes = [(entry.version / "model.bin").stat().st_size for entry in (half, whole)]
    assert sizes[0] < 0.6 * sizes[1]
    assert loaded(half).provider == "CPU f32"
    manifest = half.read_manifest()
    assert manifest is not None
    assert (manifest["format"]["weights"], manifest["format"]["computes_in"]) == ("f16", "f32")


def test_openvino_bf16_computes_in_bf16_or_is_refused(ncf: Callable[[str], Entry]) -> None:
    import openvino

    if "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        assert loaded(ncf("bf16")).provider == "CPU bf16"
    else:
        with pytest.raises(ArtifactError, match="no bf16"):
            ncf("bf16")


def test_openvino_int8_quantises_products_and_says_nothing(
    ncf: Callable[[str], Entry], capfd: pytest.CaptureFixture[str]
) -> None:
    assert "FakeQuantize" in (ncf("int8").version / "model.xml").read_text()
    out, err = capfd.readouterr()
    assert out == ""
    # the steps of the export, and nothing of NNCF's
    assert all(re.match(r"\d\d:\d\d:\d\d [a-z]", line) for line in err.splitlines()), err


def test_tensorflow_names_the_operators_it_lacks() -> None:
    from exporters.onnx_to_tensorflow import Unsupported, concrete

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("x", "y")]
    nodes = [helper.make_node("Det", ["x"], ["z"], name="/d"), helper.make_node("StringNormalizer", ["z"], ["y"])]
    with pytest.raises(Unsupported, match=r"operators Det, StringNormalizer: Det \(node '/d'\); StringN.* \(for 'y'\)"):
        concrete(helper.make_model(helper.make_graph(nodes, "graph", ends[:1], ends[1:])))


def test_tensorflow_takes_weights_that_are_read_as_they_are_and_transposed() -> None:
    """As an embedding that is the last layer's weight too, too large for ONNX's optimiser to transpose ahead."""
    from exporters.onnx_to_tensorflow import concrete

    weight = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["weight", "x"], ["embedded"]),
        helper.make_node("Transpose", ["weight"], ["transposed"], perm=[1, 0]),
        helper.make_node("MatMul", ["embedded", "transposed"], ["y"]),
    ]
    made = model(nodes, {"x": ["batch"]}, ["y"], {"weight": weight}, dtype=TensorProto.INT64)
    answer = concrete(made)({"x": np.array([4, 0])})
    np.testing.assert_allclose(answer["y"], weight[[4, 0]] @ weight.T, rtol=1e-5, atol=1e-5)


def test_tensorflow_keeps_weights_once_that_are_used_in_each_step() -> None:
    """An unrolled network would pass the 2 GiB that TensorFlow's files can hold."""
    from exporters.onnx_to_tensorflow import concrete

    kernel = np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype(np.float32)
    steps = [helper.make_node("Conv", [f"x{n}", "kernel"], [f"x{n + 1}"], pads=[1, 1, 1, 1]) for n in range(8)]
    made = model(steps, {"x0": ["batch", 16, 8, 8]}, ["x8"], {"kernel": kernel})
    size = concrete(made).function.graph.as_graph_def().ByteSize()
    assert kernel.nbytes < size < 2 * kernel.nbytes


@pytest.mark.parametrize("where", ["initializers", "Constant nodes"])
def test_tensorflow_keeps_more_weights_than_its_file_holds_in_variables(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tf = import_tensorflow()
    from exporters.onnx_to_tensorflow import concrete, graph
    from exporters.tensorflow import SIGNATURE, save

    random = np.random.default_rng(0)
    weights = {
        "kernel": random.standard_normal((64, 64, 3, 3)).astype(np.float32),
        "matrix": random.standard_normal((256, 256)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["a"]),
        helper.make_node("Conv", ["a", "kernel"], ["b"]),
        helper.make_node("Flatten", ["b"], ["c"]),
        helper.make_node("Gemm", ["c", "matrix"], ["y"], transB=1),
    ]
    if where == "Constant nodes":
        nodes[:0] = [
            helper.make_node("Constant", [], [name], value=numpy_helper.from_array(weight))
            for name, weight in weights.items()
        ]
    made = model(nodes, {"x": ["batch", 64, 6, 6]}, ["y"], weights if where == "initializers" else {})
    x = random.standard_normal((2, 64, 6, 6)).astype(np.float32)
    right = concrete(made)({"x": x})["y"].numpy()
    monkeypatch.setattr(graph, "MAX_CONSTANT_BYTES", 1 << 16)
    converted = concrete(made)
    assert len(converted.variables) == len(weights)
    save(converted, tmp_path)
    assert (tmp_path / "saved_model.pb").stat().st_size < 1 << 16
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_array_equal(loaded.signatures[SIGNATURE](x=tf.constant(x))["y"].numpy(), right)


def test_tensorflow_starts_in_silence_and_leaves_room_for_another_llvm() -> None:
    """In a process of its own: LLVM ends the process where it finds itself registered twice."""
    pytest.importorskip("triton._C.libtriton")
    code = """
from servemark.frameworks.tensorflow import import_tensorflow
import_tensorflow().constant(1)
import triton._C.libtriton
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
