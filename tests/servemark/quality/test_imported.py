"""Labels for an imported model: the workload file that docs/guides/own_model.md shows, executed."""

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from servemark.paths import CHECKOUT
from servemark.workload.imported import MODELS
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.locust_run import the_result
from tests.support.own_models import OPEN, save

CLASSES = 3


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servemark: Servemark) -> None:
    """A file imported as the guide's `cnn`, whose scores are the means of the colours, and its `labels.npz`.

    Four in five of the labels are what it answers.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(MODELS, str(tmp_path / "models"))
    page = (CHECKOUT / "docs/guides/own_model.md").read_text()
    labels = page.split("### Labels")[1].split("\n## ")[0]
    [shown] = re.findall(r"^```python\n(.*?)^```", labels, re.MULTILINE | re.DOTALL)
    (tmp_path / "cnn_labelled.py").write_text(shown)
    nodes = [helper.make_node("GlobalAveragePool", ["image"], ["means"]), helper.make_node("Flatten", ["means"], ["y"])]
    ports = [("image", TensorProto.FLOAT, (OPEN, CLASSES, 16, 16))], [("y", TensorProto.FLOAT, (OPEN, CLASSES))]
    save(tmp_path / "cnn.onnx", nodes, *ports)
    images = np.random.default_rng(0).random((20, CLASSES, 16, 16), dtype=np.float32)
    right = images.mean(axis=(2, 3)).argmax(axis=1)
    np.savez(tmp_path / "labels.npz", image=images, label=np.where(np.arange(20) % 5, right, (right + 1) % CLASSES))
    assert servemark("import", "cnn.onnx").code == 0


@pytest.mark.usefixtures("imported")
def test_a_workload_file_gives_an_imported_model_labels_and_a_metric(tmp_path: Path, servemark: Servemark) -> None:
    places = ["--model-repository", str(tmp_path / "repository"), "--out", str(tmp_path / "out")]
    code, out, err = servemark("quality", "cnn", "--input-data", "labels.npz", *places)
    assert (code, out) == (BAD_INPUT, "")
    assert "own_model.md, Labels" in err
    named = ["cnn_labelled", "--workload-file", "cnn_labelled.py", "--input-data", "labels.npz", "--in-process"]
    code, _, err = servemark("quality", *named, *places)
    assert code == 0, err
    found = the_result(tmp_path / "out")["quality"]
    # The user's own weights are judged.
    assert (found["figures"][0]["value"], found["weights"], found["outcome"]) == (0.8, "trained", "met")
