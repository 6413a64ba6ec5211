"""An entry of a Triton repository: its newest model file, and what its configuration adds."""

from pathlib import Path

import pytest

from exporters.importing import triton_entry
from servemark.errors import ArtifactError

CONFIG = 'backend: "onnxruntime" max_batch_size: 4 input [{ name: "x" data_type: TYPE_FP32 dims: [3, 8, 8] }]'


def test_the_newest_version_is_taken_with_the_sizes_of_the_configuration(tmp_path: Path) -> None:
    assert triton_entry.read(tmp_path) is None
    (tmp_path / "config.pbtxt").write_text(CONFIG)
    for version in ("2", "10"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "model.onnx").write_bytes(b"")
    entry = triton_entry.read(tmp_path)
    assert entry == triton_entry.TritonEntry(tmp_path / "10" / "model.onnx", {"x": (3, 8, 8)}, 4)


@pytest.mark.parametrize(
    ("policy", "version"), [("all { }", "10"), ("latest { num_versions: 2 }", "10"), ("specific { versions: 2 }", "2")]
)
def test_the_version_that_triton_would_choose_is_taken(tmp_path: Path, policy: str, version: str) -> None:
    (tmp_path / "config.pbtxt").write_text(f"{CONFIG} version_policy {{ {policy} }}")
    for name in ("2", "10", "011", "x"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.onnx").write_bytes(b"")
    entry = triton_entry.read(tmp_path)
    assert entry is not None
    assert entry.file == tmp_path / version / "model.onnx"


def test_a_policy_without_a_version_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.pbtxt").write_text(f"{CONFIG} version_policy {{ specific {{ versions: 3 }} }}")
    (tmp_path / "2").mkdir()
    with pytest.raises(ArtifactError, match="its version_policy serves none of its versions 2"):
        triton_entry.read(tmp_path)


def test_sizes_are_the_model_s_where_a_client_sees_others(tmp_path: Path) -> None:
    tensors = 'input [{ name: "x" data_type: TYPE_FP32 dims: [6] reshape: { shape: [2, 3] } }'
    scalar = '{ name: "t" data_type: TYPE_FP32 dims: [1] reshape: { shape: [] } }]'
    (tmp_path / "config.pbtxt").write_text(f"max_batch_size: 4 {tensors}, {scalar}")
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.onnx").write_bytes(b"")
    entry = triton_entry.read(tmp_path)
    assert entry is not None
    assert entry.shapes == {"x": (2, 3), "t": ()}


def test_an_onnx_file_may_lie_in_a_folder_of_its_name(tmp_path: Path) -> None:
    """As Triton has it, for external data."""
    (tmp_path / "config.pbtxt").write_text(CONFIG)
    (tmp_path / "1" / "model.onnx").mkdir(parents=True)
    (tmp_path / "1" / "model.onnx" / "model.onnx").write_bytes(b"")
    entry = triton_entry.read(tmp_path)
    assert entry is not None
    assert entry.file == tmp_path / "1" / "model.onnx" / "model.onnx"


@pytest.mark.parametrize("config", [b"max_batch_size: many", b"\xff\xfe"])
def test_a_damaged_configuration_is_told(tmp_path: Path, config: bytes) -> None:
    (tmp_path / "config.pbtxt").write_bytes(config)
    (tmp_path / "1").mkdir()
    with pytest.raises(ArtifactError, match=r"cannot be imported: the config\.pbtxt is") as error:
        triton_entry.read(tmp_path)
    assert "name the model file itself" in str(error.value.fix)


@pytest.mark.parametrize("file", ["model.py", "model.plan"])
def test_code_and_other_formats_are_refused(tmp_path: Path, file: str) -> None:
    (tmp_path / "config.pbtxt").write_text(f'backend: "python" default_model_filename: "{file}"')
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.py").write_text("raise SystemExit")
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
    (entry / "config.pbtxt").write_text(f'backend: "onnxruntime" default_model_filename: "{name}"')
    with pytest.raises(ArtifactError, match="lies outside the entry"):
        triton_entry.read(entry)
