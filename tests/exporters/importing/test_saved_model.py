"""What a SavedModel says of itself, read from its file alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporters.importing import saved_model
from servemark.errors import ArtifactError
from servemark.frameworks.tensorflow import import_tensorflow


def saved(path: Path, function: Callable[[Any], Any], signature: str = "serving_default") -> Path:
    tf: Any = import_tensorflow()
    module = tf.Module()
    module.answer = tf.function(function, input_signature=[tf.TensorSpec([None, 6], tf.float32, "x")])
    tf.saved_model.save(module, str(path), signatures={signature: module.answer})
    return path


def test_tensors_are_read_and_graphs_that_reach_out_are_refused(tmp_path: Path) -> None:
    tf: Any = import_tensorflow()
    found = saved_model.describe(saved(tmp_path / "good", lambda x: {"y": x[:, :2]}))
    assert [(port.name, port.sizes) for port in (*found.inputs, *found.outputs)] == [("x", (-1, 6)), ("y", (-1, 2))]

    def reading(x: Any) -> dict[str, Any]:
        return {"y": x + tf.cast(tf.strings.length(tf.io.read_file("/etc/hostname")), tf.float32)}

    with pytest.raises(ArtifactError, match=r"reaches files or Python \(ReadFile\)"):
        saved_model.describe(saved(tmp_path / "bad", reading))
    with pytest.raises(ArtifactError, match=r"it has no signature serving_default, but .*other"):
        saved_model.describe(saved(tmp_path / "other", lambda x: {"y": x}, "other"))
    (tmp_path / "good" / "saved_model.pb").write_bytes(b"\xff damaged")
    with pytest.raises(ArtifactError, match=r"saved_model\.pb is damaged"):
        saved_model.describe(tmp_path / "good")
