"""Weights in other files: none keeps its name, none lies elsewhere, and absurd places are errors of the file."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from exporters.importing import onnx_file
from servemark.errors import ArtifactError
from tests.support.onnx_models import by_onnxruntime
from tests.support.own_models import OPEN, WEIGHTS, dense

LIBRARY = "libtriton_onnxruntime.so"
"""Library that Triton loads as a backend if it lies beside a model."""


def external(path: Path, location: str = "weights/dense.bin") -> Path:
    """A file whose weights lie in another."""
    model = onnx.load(dense(path))
    (path.parent / location).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path, save_as_external_data=True, location=location, size_threshold=0)
    return path


def lying(path: Path, **said: str) -> Path:
    """The same, with other words on where they lie."""
    model = onnx.load(external(path), load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = said.pop(entry.key, entry.value)
    for key, value in said.items():
        model.graph.initializer[0].external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


def check(file: Path) -> None:
    """Compare its answer with numpy's."""
    x = np.ones((2, 6), np.float32)
    np.testing.assert_allclose(by_onnxruntime(file, {"x": x})["y"], np.maximum(x @ WEIGHTS, 0), rtol=1e-5)


@pytest.mark.parametrize("location", [LIBRARY, "model.py", "weights/dense.bin", "model.onnx.data", "model.onnx"])
def test_weights_come_along_under_a_name_of_our_own(tmp_path: Path, location: str) -> None:
    """The attack: Triton loads a library of this name from the version directory, and runs what it holds."""
    path = external(tmp_path / "dense.onnx", location)
    assert (tmp_path / location).is_file()
    onnx_file.place(path, tmp_path / "placed" / "1")
    files = {each.name for each in (tmp_path / "placed").rglob("*") if each.is_file()}
    assert files == {"model.onnx", "weights_0.bin"}
    check(tmp_path / "placed" / "1" / "model.onnx")


def test_a_constant_of_a_subgraph_and_of_a_function_is_no_way_in(tmp_path: Path) -> None:
    tensor = onnx.load(external(tmp_path / "dense.onnx", LIBRARY), load_external_data=False).graph.initializer[0]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, (OPEN, 4))
    product = [helper.make_node("Constant", [], ["W"], value=tensor), helper.make_node("MatMul", ["x", "W"], ["z"])]
    own = helper.make_function("mine", "Dense", ["x"], ["z"], product, imports[:1])
    body = helper.make_graph([helper.make_node("Dense", ["x"], ["z"], domain="mine")], "body", [], [value])
    other = helper.make_graph(product, "other", [], [value])
    yes = helper.make_tensor("v", TensorProto.BOOL, [], [True])
    graph = helper.make_graph(
        [
            helper.make_node("Constant", [], ["yes"], value=yes),
            helper.make_node("If", ["yes"], ["z"], then_branch=body, else_branch=other),
            helper.make_node("Relu", ["z"], ["y"]),
        ],
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (OPEN, 6))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (OPEN, 4))],
    )
    path = tmp_path / "nested.onnx"
    path.write_bytes(helper.make_model(graph, functions=[own], opset_imports=imports, ir_version=8).SerializeToString())
    onnx_file.describe(path)
    onnx_file.place(path, tmp_path / "1")
    assert sorted(each.name for each in (tmp_path / "1").iterdir()) == ["model.onnx", "weights_0.bin"]
    assert LIBRARY.encode() not in (tmp_path / "1" / "model.onnx").read_bytes()


def test_a_place_that_nobody_asks_for_is_left_out(tmp_path: Path) -> None:
    model = onnx.load(dense(tmp_path / "dense.onnx"))
    model.graph.initializer[0].external_data.add(key="location", value=f"../{LIBRARY}")
    (tmp_path / "dense.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ArtifactError, match="lies outside its folder"):
        onnx_file.describe(tmp_path / "dense.onnx")


def test_two_files_are_two_and_one_file_is_one(tmp_path: Path) -> None:
    path = external(tmp_path / "dense.onnx")
    model = onnx.load(path, load_external_data=False)
    again = model.graph.initializer.add()
    again.CopyFrom(model.graph.initializer[0])
    again.name = "again"
    again.external_data[0].value = "./weights/../weights/dense.bin".replace("../weights/", "")
    path.write_bytes(model.SerializeToString())
    onnx_file.place(path, tmp_path / "1")
    assert sorted(each.name for each in (tmp_path / "1").iterdir()) == ["model.onnx", "weights_0.bin"]


@pytest.mark.parametrize("links", ["file", "folder"])
def test_a_link_out_of_the_folder_is_refused(tmp_path: Path, links: str) -> None:
    """The attack: weights.bin is a link to a file of the user's, which would be copied into the repository."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "dense.bin").write_bytes(b"s" * 1000)
    path = external(tmp_path / "model" / "dense.onnx")
    (tmp_path / "model" / "weights" / "dense.bin").unlink()
    if links == "file":
        (tmp_path / "model" / "weights" / "dense.bin").symlink_to(tmp_path / "secret" / "dense.bin")
    else:
        (tmp_path / "model" / "weights").rmdir()
        (tmp_path / "model" / "weights").symlink_to(tmp_path / "secret")
    with pytest.raises(ArtifactError, match=r"weight 'W' lies outside its folder \('weights/dense\.bin'\)"):
        onnx_file.describe(path)


def test_links_as_download_caches_make_them_are_followed(tmp_path: Path) -> None:
    """Both the model and its weights are links into one folder of blobs."""
    path = external(tmp_path / "blobs" / "3f", "dense.data")
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "blobs" / "dense.data").rename(tmp_path / "blobs" / "4e")
    (tmp_path / "snapshot" / "dense.onnx").symlink_to(path)
    (tmp_path / "snapshot" / "dense.data").symlink_to(tmp_path / "blobs" / "4e")
    onnx_file.place(tmp_path / "snapshot" / "dense.onnx", tmp_path / "1")
    check(tmp_path / "1" / "model.onnx")


def test_what_is_missing_short_or_no_file_is_told(tmp_path: Path) -> None:
    path, weights = external(tmp_path / "dense.onnx"), tmp_path / "weights" / "dense.bin"
    weights.write_bytes(b"short")
    with pytest.raises(ArtifactError, match=r"dense\.bin has 5 bytes, and weight 'W' ends at 96"):
        onnx_file.describe(path)
    weights.unlink()
    with pytest.raises(ArtifactError, match=r"external data .*dense\.bin is missing \(weight 'W'\)"):
        onnx_file.describe(path)
    os.mkfifo(weights)
    with pytest.raises(ArtifactError, match=r"external data .*dense\.bin is missing \(weight 'W'\)"):
        onnx_file.describe(path)
    weights.unlink()
    weights.symlink_to(weights)
    with pytest.raises(ArtifactError, match="W"):
        onnx_file.describe(path)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"offset": "abc"}, "has the offset 'abc', which is not a size"),
        ({"offset": "-1"}, "has the offset '-1', which is not a size"),
        ({"offset": "1e3"}, "which is not a size"),
        ({"offset": "٣"}, "which is not a size"),
        ({"offset": "9" * 5000}, r"has the offset '9{60}\.\.\.', which is not a size"),
        ({"length": "9" * 5000}, r"has the length '9{60}\.\.\.', which is not a size"),
        ({"length": "-1"}, "has the length '-1'"),
        ({"length": "95"}, "has 95 bytes, and its sizes need 96"),
        ({"offset": str(10**17)}, "has 96 bytes, and weight 'W' ends at 100,000,000,000,000,096"),
        ({"offset": "1"}, "ends at 97"),
        ({"location": ""}, "lies in no file that can be"),
        ({"location": "a" * 5000}, "lies in no file that can be"),
        ({"location": "a" * 900}, "lies in no file that can be: File name too long"),
        ({"location": "a\0b"}, "lies in no file that can be"),
        ({"location": "/etc/passwd"}, r"lies outside its folder \('/etc/passwd'\)"),
        ({"location": "../../etc/passwd"}, r"lies outside its folder \('\.\./\.\./etc/passwd'\)"),
        ({"location": "weights/../../x"}, "lies outside its folder"),
        ({"location": "*/_ORT_MEM_ADDR_/*"}, "is missing"),
        ({"location": "."}, "is missing"),
    ],
)
def test_absurd_places_are_errors_of_the_file(tmp_path: Path, said: dict[str, str], words: str) -> None:
    with pytest.raises(ArtifactError, match=words) as error:
        onnx_file.describe(lying(tmp_path / "dense.onnx", **said))
    assert len(str(error.value)) < 1000


def test_a_place_that_is_said_twice_is_refused(tmp_path: Path) -> None:
    """Readers differ in which of the two they take."""
    path = external(tmp_path / "dense.onnx")
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].external_data.add(key="location", value=LIBRARY)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ArtifactError, match="says twice where it lies"):
        onnx_file.describe(path)
