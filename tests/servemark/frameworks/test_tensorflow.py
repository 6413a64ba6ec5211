"""Names in a SavedModel: ours where TensorFlow takes the file's not, none twice, and kept with the artifact."""

from pathlib import Path

import pytest

from servemark.frameworks.tensorflow import FILE, names_of, signature_names


def test_names_that_tensorflow_takes_stay() -> None:
    names = signature_names(["input_ids", "X"], ["scores"])
    assert names.inputs == {"input_ids": "input_ids", "X": "X"}
    assert names.outputs == {"scores": "scores"}


def test_others_are_numbered_and_none_is_twice() -> None:
    names = signature_names(["x:0", "input_0", "self", "a", "A"], ["y.1"])
    assert names.inputs["input_0"] == "input_0"
    assert len(set(names.inputs.values())) == 5
    assert all(name.startswith("input_") for name in names.inputs.values())
    assert names.outputs == {"y.1": "output_0"}


def test_they_are_kept_and_lead_back(tmp_path: Path) -> None:
    signature_names(["x:0"], ["y:0"]).write(tmp_path)
    names = names_of(tmp_path)
    assert names.fed({"x:0": 1}) == {"input_0": 1}
    assert names.answered({"output_0": 2}) == {"y:0": 2}
    assert names.input_names(["input_0"]) == ["x:0"]


def test_another_maker_s_artifact_has_its_own() -> None:
    names = names_of(Path("absent"))
    assert (names.fed({"x": 1}), names.answered({"y": 2})) == ({"x": 1}, {"y": 2})


@pytest.mark.parametrize("content", ["{", "{}", '{"inputs": 1, "outputs": 2}'])
def test_damaged_ones_are_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).parent.mkdir()
    (tmp_path / FILE).write_text(content)
    with pytest.raises(ValueError):  # noqa: PT011 - json's own is one too
        names_of(tmp_path)
