"""Weights of the user's: every engine gets the same, and what does not fit is named."""

import math
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

import exporters
from exporters.pipeline.weights import SEEDED, TRAINED, Weights
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


def test_the_zoos_own_are_taken_without_asking_until_random_ones_are_asked_for(tmp_path: Path) -> None:
    [file] = TRAINED.glob("spatial_transformer.*")
    workload = get("spatial_transformer")
    first = exporters.export(workload, "pytorch", tmp_path).manifest
    assert first["weights"] == {"path": file.name, "sha256": digest(file)}
    assert first["output_agreement"]["weights"] == "trained"
    assert exporters.export(workload, "pytorch", tmp_path, weights=str(file)).up_to_date
    assert exporters.export(workload, "pytorch", tmp_path, weights=SEEDED).manifest["weights"] is None
    again = exporters.export(workload, "pytorch", tmp_path)
    assert again.up_to_date
    assert again.manifest["output_agreement"]["weights"] == "random"


@pytest.mark.parametrize("file", sorted(TRAINED.glob("*")), ids=lambda file: file.stem)
def test_the_zoos_own_fit_their_workloads_and_are_small(file: Path) -> None:
    Weights.of(file).load_into(get(file.stem).build(), file.stem)
    assert file.stat().st_size < 3_000_000


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


def legacy(content: object, file: Path) -> None:
    torch.save(content, file, _use_new_zipfile_serialization=False)


def script(_: object, file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for member in ("data.pkl", "constants.pkl", "version"):
            archive.writestr(f"model/{member}", b"")


UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "code": (lambda file: torch.save({"a": Evil()}, file), "holds Python objects beside tensors"),
    "code, legacy": (lambda file: legacy({"a": Evil()}, file), "holds Python objects beside tensors"),
    "whole module": (lambda file: torch.save(nn.Linear(1, 1), file), "such as a whole module"),
    "TorchScript": (lambda file: script(None, file), "a TorchScript archive, which holds code"),
    "text": (lambda file: file.write_text("no weights"), "neither safetensors nor what torch.save writes"),
    "empty": (lambda file: file.touch(), "it is empty"),
    "cut off": (lambda file: file.write_bytes(b"PK\3\4 and no more"), "it is damaged"),
    "the end of an archive": (
        lambda file: file.write_bytes(
            b"no archive".ljust(46) + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 46, 0, 0)
        ),
        "neither safetensors nor what torch.save writes",
    ),
    "list": (lambda file: torch.save([torch.zeros(1)], file), "holds a list and no tensors by name"),
    "numbers as names": (lambda file: torch.save({0: torch.zeros(1)}, file), "named by int, not by text"),
    "a number": (lambda file: torch.save({"\33[1ma": 1}, file), r"'\\u001b[1ma' in it is not a tensor"),
}
UNSAFE = re.compile(r"weights_only|trust|safe_globals|\x1b", re.IGNORECASE)


@pytest.mark.parametrize("content", UNREADABLE)
def test_nothing_but_tensors_is_read(tmp_path: Path, content: str, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "weights.pt"
    write, said = UNREADABLE[content]
    write(file)
    with pytest.raises(ArtifactError, match=r"weights\.pt cannot be read: ") as caught:
        Weights.of(file).load_into(nn.Linear(1, 1), "mine")
    assert said in caught.value.what
    assert not UNSAFE.search(str(caught.value))
    shown = capfd.readouterr()
    assert "it ran" not in shown.out
    assert not shown.err


@pytest.mark.parametrize("content", [b"", b"no weights", b"\xff" * 8])
def test_damaged_safetensors_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "weights.safetensors"
    file.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"weights\.safetensors cannot be read: it is (empty|not a safetensors)"):
        Weights.of(file).load_into(nn.Linear(1, 1), "mine")


UNUSABLE = {
    "int8, not float32": torch.ones(1, 2, dtype=torch.int8),
    "uint8, not float32": torch.ones(1, 2, dtype=torch.uint8),
    "complex64, not float32": torch.ones(1, 2, dtype=torch.complex64),
    "float8_e4m3fn, whose scale is not in it": torch.ones(1, 2).to(torch.float8_e4m3fn),
    "NaN or infinite": torch.tensor([[1.0, math.nan]]),
    "NaN or infinite ": torch.tensor([[1e300, 1.0]], dtype=torch.float64),  # in float32
    "sparse or without values": torch.ones(1, 2).to_sparse(),
}


@pytest.mark.parametrize("said", UNUSABLE)
def test_quantised_tensors_and_those_that_are_not_numbers_are_refused(tmp_path: Path, said: str) -> None:
    file, network = tmp_path / "weights.pt", nn.Linear(2, 1)
    before = network.weight.detach().clone()
    torch.save({"weight": UNUSABLE[said], "bias": torch.zeros(1)}, file)
    with pytest.raises(ArtifactError) as caught:
        Weights.of(file).load_into(network, "mine")
    assert caught.value.what == f"{file} does not fit mine: not usable: weight ({said.strip()})"
    assert torch.equal(network.weight, before)


def test_half_precision_and_a_mask_of_infinity_fit(tmp_path: Path) -> None:
    file, network = tmp_path / "weights.pt", nn.Linear(2, 1)
    network.register_buffer("mask", torch.tensor([0.0, -math.inf]))
    torch.save(
        {name: (value * 0 + 1.5).half() if name != "mask" else value for name, value in network.state_dict().items()},
        file,
    )
    Weights.of(file).load_into(network, "mine")
    assert network.weight.tolist() == [[1.5, 1.5]]


def test_names_of_a_file_do_not_steer_the_terminal(tmp_path: Path) -> None:
    file, network = tmp_path / "weights.pt", nn.Linear(2, 1)
    torch.save(network.state_dict() | {"\33[2J" + "x" * 1000: torch.zeros(1)}, file)
    with pytest.raises(ArtifactError) as caught:
        Weights.of(file).load_into(network, "mine")
    assert "\33" not in str(caught.value)
    assert len(str(caught.value)) < 1000


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
