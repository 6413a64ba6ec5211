"""Weights of the user's: every engine gets the same, and what does not fit is named."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

import exporters
from exporters.pipeline.weights import SEEDED, Weights
from servemark.errors import ArtifactError
from servemark.models import densenet121, vgg16
from servemark.models.blocks import resnet
from servemark.repository.entry import Entry, digest
from servemark.workload import get

NAME = "ncf_tiny"


def halved(path: Path, name: str = NAME) -> Path:
    """Weights of a workload that are not its own."""
    state = {
        key: value / 2 if value.is_floating_point() else value for key, value in get(name).build().state_dict().items()
    }
    save_file(state, path)
    return path


def scores(repository: Path, engine: str) -> object:
    golden = Entry(repository, NAME, engine).read_golden()
    assert golden is not None
    return golden.outputs["scores"].tobytes()


def test_every_engine_gets_them_until_they_are_taken_back(tmp_path: Path) -> None:
    workload, file = get(NAME), halved(tmp_path / "own.safetensors")
    exporters.export(workload, "pytorch", tmp_path)
    seeded = scores(tmp_path, "pytorch")
    report = exporters.export(workload, "pytorch", tmp_path, weights=str(file))
    assert not report.up_to_date
    assert report.manifest["weights"] == {"path": str(file), "sha256": digest(file)}
    assert report.manifest["output_agreement"]["weights"] == "trained"
    assert scores(tmp_path, "pytorch") != seeded
    assert exporters.export(workload, "pytorch", tmp_path).up_to_date

    other = exporters.export(workload, "onnxruntime", tmp_path)
    assert other.manifest["weights"] == report.manifest["weights"]
    assert scores(tmp_path, "onnxruntime") == scores(tmp_path, "pytorch")

    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(ArtifactError, match="which are not there or changed") as error:
        exporters.export(workload, "pytorch", tmp_path)
    assert f"--weights {SEEDED}" in str(error.value.fix)
    assert exporters.export(workload, "pytorch", tmp_path, weights=SEEDED).manifest["weights"] is None
    assert scores(tmp_path, "pytorch") == seeded


def test_what_does_not_fit_is_named_and_not_remembered(tmp_path: Path) -> None:
    file = tmp_path / "wrong.pt"
    state = {"1.weight": torch.zeros(3, 2), "2.bias": torch.zeros(2)}
    torch.save({"state_dict": state}, file)
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.BatchNorm1d(2))
    with pytest.raises(ArtifactError) as error:
        Weights.of(file).load_into(network, "mine")
    assert str(error.value).startswith(
        f"{file} does not fit mine: missing: 1.bias, 2.weight, 2.running_mean, 2.running_var; "
        "of another shape: 1.weight [3, 2], not [2, 4]"
    )
    torch.save(network.state_dict() | {"head": torch.zeros(1)}, file)
    with pytest.raises(ArtifactError, match="does not fit mine: unexpected: head"):
        Weights.of(file).load_into(network, "mine")
    with pytest.raises(ArtifactError, match=f"does not fit {NAME}"):
        exporters.export(get(NAME), "pytorch", tmp_path, weights=str(file))
    assert exporters.export(get(NAME), "pytorch", tmp_path).manifest["weights"] is None


def test_a_file_without_the_counters_of_training_fits(tmp_path: Path) -> None:
    network, file = nn.Sequential(nn.BatchNorm1d(2)), tmp_path / "old.pth"
    state = {name: value + 1 for name, value in network.state_dict().items() if "num_batches" not in name}
    torch.save(state, file)
    Weights.of(file).load_into(network, "mine")
    np.testing.assert_array_equal(network.state_dict()["0.running_mean"].numpy(), [1, 1])


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (print, ("it ran",))


@pytest.mark.parametrize("content", ["code", "text", "list"])
def test_nothing_but_tensors_is_read(tmp_path: Path, content: str, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "weights.pt"
    if content == "text":
        file.write_text("no weights")
    else:
        torch.save({"a": Evil()} if content == "code" else [torch.zeros(1)], file)
    with pytest.raises(ArtifactError, match=r"weights\.pt cannot be read"):
        Weights.of(file).load_into(nn.Linear(1, 1), "mine")
    assert "it ran" not in capfd.readouterr().out


@pytest.mark.parametrize("name", ["resnet50", "vgg16", "densenet121"])
def test_torchvision_s_names_are_taken_as_they_are(name: str) -> None:
    with torch.device("meta"):
        ours = {
            "resnet50": lambda: resnet.network(resnet.Sizes(blocks=(3, 4, 6, 3))),
            "vgg16": lambda: vgg16.network(vgg16.Sizes()),
            "densenet121": lambda: densenet121.network(densenet121.Sizes()),
        }[name]()
        theirs = (
            torchvision.models.get_model(name, weights=None, init_weights=False)
            if name == "vgg16"
            else (torchvision.models.get_model(name, weights=None))
        )
    shapes = [{key: value.shape for key, value in model.state_dict().items()} for model in (ours, theirs)]
    assert shapes[0] == shapes[1]
