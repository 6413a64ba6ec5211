"""What an ONNX file says of itself, and the files that are refused before anything runs."""

import re
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from exporters.importing import onnx_file
from servemark.errors import ArtifactError
from tests.support.own_models import OPEN, dense, lookup, save


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


def test_flops_are_not_guessed_where_an_operator_is_not_counted(tmp_path: Path) -> None:
    nodes = [helper.make_node("Einsum", ["x", "W"], ["y"], equation="ij,jk->ik")]
    path = save(tmp_path / "m.onnx", nodes, [("x", TensorProto.FLOAT, (1, 6))], [("y", TensorProto.FLOAT, (1, 4))])
    assert onnx_file.describe(path).flops({"x": (1, 6)}) is None


def external(path: Path) -> Path:
    """A file whose weights lie in another."""
    model = onnx.load(dense(path))
    onnx.save(model, path, save_as_external_data=True, location="weights/dense.bin", size_threshold=0)
    return path


def test_external_data_come_along(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    path = external(tmp_path / "dense.onnx")
    onnx_file.place(path, tmp_path / "1")
    assert sorted(file.name for file in (tmp_path / "1").rglob("*") if file.is_file()) == ["dense.bin", "model.onnx"]
    (tmp_path / "weights" / "dense.bin").write_bytes(b"short")
    with pytest.raises(ArtifactError, match=r"dense\.bin has 5 bytes, and weight 'W' ends at 96"):
        onnx_file.describe(path)
    (tmp_path / "weights" / "dense.bin").unlink()
    with pytest.raises(ArtifactError, match=r"external data .*dense\.bin is missing \(weight 'W'\)"):
        onnx_file.describe(path)


def outside(path: Path) -> Path:
    """Weights that name a file elsewhere."""
    (path.parent / "weights").mkdir()
    model = onnx.load(external(path), load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "../../etc/passwd"
    path.write_bytes(model.SerializeToString())
    return path


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
    ports = [("x", TensorProto.FLOAT, (1, 6))], [("y", TensorProto.FLOAT, (1, 6))]
    return save(path, nodes, *ports, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("company", 1)])


def complex_numbers(path: Path) -> Path:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    return save(path, nodes, [("x", TensorProto.COMPLEX64, (1,))], [("y", TensorProto.COMPLEX64, (1,))])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (outside, r"weight 'W' lies outside its folder \('\.\./\.\./etc/passwd'\)"),
        (text, "it is no ONNX file"),
        (huge, r"it has 3\.0 GiB, and protobuf reads less than 2"),
        (custom, r"custom operators \(company::Mine\), and servemark loads no libraries"),
        (complex_numbers, "its input 'x' is COMPLEX64"),
        (
            lambda path: dense(path, opset_imports=[helper.make_opsetid("", 99)]),
            r"its opset 99 is newer than \d+, the newest of onnxruntime",
        ),
        (lambda path: dense(path, ir_version=99), r"its IR version 99 is newer than \d+, the newest of onnxruntime"),
    ],
)
def test_a_file_that_cannot_be_used_is_told(tmp_path: Path, make: object, said: str) -> None:
    assert callable(make)
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


def test_a_local_function_is_no_custom_operator(tmp_path: Path) -> None:
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    twice = helper.make_function(
        "mine", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], imports[:1]
    )
    nodes = [helper.make_node("Twice", ["x"], ["y"], domain="mine")]
    ports = [("x", TensorProto.FLOAT, (OPEN, 6))], [("y", TensorProto.FLOAT, (OPEN, 6))]
    path = save(tmp_path / "m.onnx", nodes, *ports, opset_imports=imports, functions=[twice])
    assert onnx_file.describe(path).flops({"x": (1, 6)}) is None
