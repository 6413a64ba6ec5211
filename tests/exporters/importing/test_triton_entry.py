"""An entry of a Triton repository: its newest model file, and what its configuration adds."""

from pathlib import Path

import pytest

from exporters.importing import triton_entry
from exporters.importing.triton_entry import TritonEntry
from servemark.errors import ArtifactError

CONFIG = 'backend: "onnxruntime" max_batch_size: 4 input [{ name: "x" data_type: TYPE_FP32 dims: [3, 8, 8] }]'


def laid_out(folder: Path, config: str | bytes, *files: str) -> Path:
    """Write a configuration, and empty files beside it."""
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(b"")
    (folder / "config.pbtxt").write_bytes(config if isinstance(config, bytes) else config.encode())
    return folder


def read(folder: Path) -> TritonEntry:
    entry = triton_entry.read(folder)
    assert entry is not None
    return entry


def test_the_newest_version_is_taken_with_the_sizes_of_the_configuration(tmp_path: Path) -> None:
    assert triton_entry.read(tmp_path) is None
    laid_out(tmp_path, CONFIG, "2/model.onnx", "10/model.onnx")
    assert read(tmp_path) == TritonEntry(tmp_path / "10" / "model.onnx", {"x": (3, 8, 8)}, 4)


@pytest.mark.parametrize(
    ("policy", "version"), [("all { }", "10"), ("latest { num_versions: 2 }", "10"), ("specific { versions: 2 }", "2")]
)
def test_the_version_that_triton_would_choose_is_taken(tmp_path: Path, policy: str, version: str) -> None:
    files = [f"{each}/model.onnx" for each in ("2", "10", "011", "x")]
    laid_out(tmp_path, f"{CONFIG} version_policy {{ {policy} }}", *files)
    assert read(tmp_path).file == tmp_path / version / "model.onnx"


def test_a_policy_without_a_version_is_told(tmp_path: Path) -> None:
    laid_out(tmp_path, f"{CONFIG} version_policy {{ specific {{ versions: 3 }} }}", "2/model.onnx")
    with pytest.raises(ArtifactError, match="its version_policy serves none of its versions 2"):
        triton_entry.read(tmp_path)


def test_sizes_are_the_model_s_where_a_client_sees_others(tmp_path: Path) -> None:
    tensors = 'input [{ name: "x" data_type: TYPE_FP32 dims: [6] reshape: { shape: [2, 3] } }'
    scalar = '{ name: "t" data_type: TYPE_FP32 dims: [1] reshape: { shape: [] } }]'
    laid_out(tmp_path, f"max_batch_size: 4 {tensors}, {scalar}", "1/model.onnx")
    assert read(tmp_path).shapes == {"x": (2, 3), "t": ()}


def test_an_onnx_file_may_lie_in_a_folder_of_its_name(tmp_path: Path) -> None:
    """As Triton has it, for external data."""
    laid_out(tmp_path, CONFIG, "1/model.onnx/model.onnx")
    assert read(tmp_path).file == tmp_path / "1" / "model.onnx" / "model.onnx"


@pytest.mark.parametrize("config", [b"max_batch_size: many", b"\xff\xfe"])
def test_a_damaged_configuration_is_told(tmp_path: Path, config: bytes) -> None:
    laid_out(tmp_path, config, "1/model.onnx")
    with pytest.raises(ArtifactError, match=r"cannot be imported: the config\.pbtxt is") as error:
        triton_entry.read(tmp_path)
    assert "name the model file itself" in str(error.value.fix)


@pytest.mark.parametrize("file", ["model.py", "model.plan"])
def test_code_and_other_formats_are_refused(tmp_path: Path, file: str) -> None:
    laid_out(tmp_path, f'backend: "python" default_model_filename: "{file}"', "1/model.py")
    with pytest.raises(ArtifactError, match="its backend is python"):
        triton_entry.read(tmp_path)


@pytest.mark.parametrize("way", ["dots", "absolute", "link"])
def test_a_model_file_outside_the_entry_is_refused(tmp_path: Path, way: str) -> None:
    outside, entry = tmp_path / "secret.onnx", tmp_path / "entry"
    outside.write_bytes(b"not yours")
    (entry / "1").mkdir(parents=True)
    name = {"dots": "../../secret.onnx", "absolute": str(outside), "link": "model.onnx"}[way]
    if way == "link":
        (entry / "1" / name).symlink_to(outside)
    laid_out(entry, f'backend: "onnxruntime" default_model_filename: "{name}"')
    with pytest.raises(ArtifactError, match="lies outside the entry"):
        triton_entry.read(entry)
