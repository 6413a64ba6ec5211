"""Description of ONNX files, and the files that are refused before anything runs."""

import re
from collections.abc import Callable
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from exporters.importing import onnx_file
from servemark.errors import ArtifactError
from tests.support.own_models import dense, from_x_to_y, lookup, save


def test_tensors_counts_and_bounds_are_read(tmp_path: Path) -> None:
    found = onnx_file.describe(dense(tmp_path / "dense.onnx"))
    assert [(port.name, port.datatype, port.sizes) for port in (*found.inputs, *found.outputs)] == [
        ("x", "FP32", (-1, 6)),
        ("y", "FP32", (-1, 4)),
    ]
    assert (found.parameters, found.facts["opset"]) == (24, 18)
    assert found.flops({"x": (1, 6)}) == 2 * 6 * 4
    assert found.flops({"x": (5, 6)}) == 5 * 2 * 6 * 4
    table = onnx_file.describe(lookup(tmp_path / "lookup.onnx"))
    assert table.ranges == {"ids": (0, 49)}


def text(path: Path) -> Path:
    path.write_text("no model at all")
    return path


def huge(path: Path) -> Path:
    """3 GiB of holes."""
    with path.open("wb") as file:
        file.truncate(3 << 30)
    return path


def custom(path: Path) -> Path:
    nodes = [helper.make_node("Mine", ["x"], ["y"], domain="company")]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("company", 1)]
    return from_x_to_y(path, nodes, (1, 6), opset_imports=imports)


def of_a_library(path: Path) -> Path:
    """A node that loads another engine's binary, in the body of a branch."""
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, (1, 6))
    context = helper.make_node("EPContext", ["x"], ["z"], domain="com.microsoft", ep_cache_context="engine.bin")
    body = helper.make_graph([context], "body", [], [value])
    nodes = [
        helper.make_node("Constant", [], ["yes"], value=helper.make_tensor("v", TensorProto.BOOL, [], [True])),
        helper.make_node("If", ["yes"], ["y"], then_branch=body, else_branch=body),
    ]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return from_x_to_y(path, nodes, (1, 6), opset_imports=imports)


def changed(path: Path, change: Callable[[onnx.ModelProto], object]) -> Path:
    model = onnx.load(dense(path))
    change(model)
    path.write_bytes(model.SerializeToString())
    return path


def unknown_type(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = 1000


def huge_sizes(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[:] = [1 << 62] * 60


def framed(field: int, inner: bytes) -> bytes:
    """A message as a field of another."""
    size, length = len(inner), bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([field << 3 | 2, *length, size]) + inner


def deep(path: Path) -> Path:
    """A graph in a graph, 1,000 times, which the package onnx does not write."""
    model = onnx.load(dense(path))
    inner = model.graph.SerializeToString()
    for _ in range(1000):
        for field in (6, 5, 1):  # AttributeProto.g, NodeProto.attribute, GraphProto.node
            inner = framed(field, inner)
    model.ClearField("graph")
    path.write_bytes(model.SerializeToString() + framed(7, inner))
    return path


def complex_numbers(path: Path) -> Path:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    return save(path, nodes, [("x", TensorProto.COMPLEX64, (1,))], [("y", TensorProto.COMPLEX64, (1,))])


def many_inputs(path: Path) -> Path:
    ports = [(f"x{number}", TensorProto.FLOAT, (1,)) for number in range(1001)]
    return save(path, [helper.make_node("Relu", ["x0"], ["y"])], ports, [("y", TensorProto.FLOAT, (1,))])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (many_inputs, "it has 1,001 inputs and 1 outputs, and 1,000 are the most"),
        (text, "it is not an ONNX file"),
        (huge, r"it has 3\.0 GiB, and protobuf reads less than 2"),
        (custom, r"custom operators \(company::Mine\), and servemark loads no libraries"),
        (of_a_library, r"operators that run other engines' binaries \(com\.microsoft::EPContext\)"),
        (complex_numbers, "its input 'x' is COMPLEX64"),
        (lambda path: changed(path, unknown_type), "its input 'x' is of the unknown type 1000"),
        (
            lambda path: changed(path, huge_sizes),
            r"its weight 'W' is FLOAT \[.*\] in 60 dimensions, which no file holds",
        ),
        (deep, "it is not an ONNX file"),
        (
            lambda path: dense(path, opset_imports=[helper.make_opsetid("", 99)]),
            r"its opset 99 is newer than \d+, the newest of onnxruntime",
        ),
        (lambda path: dense(path, ir_version=99), r"its IR version 99 is newer than \d+, the newest of onnxruntime"),
    ],
)
def test_a_file_that_cannot_be_used_is_told(tmp_path: Path, make: Callable[[Path], Path], said: str) -> None:
    with pytest.raises(ArtifactError, match=said) as error:
        onnx_file.describe(make(tmp_path / "model.onnx"))
    assert error.value.fix


def test_what_is_asked_for_instead_of_a_newer_version_can_be_loaded(tmp_path: Path) -> None:
    """The package onnx writes opsets and IR versions that no released ONNX Runtime loads yet."""
    with pytest.raises(ArtifactError) as error:
        onnx_file.describe(dense(tmp_path / "opset.onnx", opset_imports=[helper.make_opsetid("", 99)]))
    opset = int(re.findall(r"opset (\d+) or older", str(error.value.fix))[0])
    with pytest.raises(ArtifactError) as error:
        onnx_file.describe(dense(tmp_path / "ir.onnx", ir_version=99))
    ir = int(re.findall(r"ir_version = (\d+)", str(error.value.fix))[0])
    path = dense(tmp_path / "newest.onnx", opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    assert onnx_file.describe(path).facts["opset"] == opset
    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert opset >= 20
    assert ir >= 10


def test_a_graph_of_too_many_nodes_is_refused_before_anything_runs(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])] * (onnx_file.MAX_NODES + 1)
    with pytest.raises(ArtifactError, match="100,001 nodes"):
        onnx_file.describe(from_x_to_y(tmp_path / "endless.onnx", nodes))


def test_functions_that_call_functions_are_counted_as_they_unfold(tmp_path: Path) -> None:
    """Thirty of them, each of which calls the one before it twice, are 2^30 nodes: onnxruntime unfolds for hours."""
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]

    def function(number: int, called: int) -> onnx.FunctionProto:
        first = helper.make_node(f"F{called}", ["a"], ["m"], domain="own")
        second = helper.make_node(f"F{called}", ["m"], ["b"], domain="own")
        return helper.make_function("own", f"F{number}", ["a"], ["b"], [first, second], domains)

    def written(functions: list[onnx.FunctionProto]) -> Path:
        nodes = [helper.make_node(functions[-1].name, ["x"], ["y"], domain="own")]
        return from_x_to_y(tmp_path / "m.onnx", nodes, (1,), opset_imports=domains, functions=functions)

    relu = helper.make_function("own", "F0", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], domains)
    with pytest.raises(ArtifactError, match="with its functions' calls many more"):
        onnx_file.describe(written([relu, *(function(number, number - 1) for number in range(1, 30))]))
    with pytest.raises(ArtifactError, match="its function 'F1' calls itself"):
        onnx_file.describe(written([function(1, 1)]))
    found = onnx_file.describe(written([relu, function(1, 0)]))
    assert (found.inputs[0].name, found.flops({"x": (1,)})) == ("x", None)
