"""Around an export: entries that are whole or not there, configurations that survive, errors that say what to do."""

import dataclasses
import json
import shutil
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import exporters
from exporters import ExportReport
from exporters.pipeline import export
from exporters.pipeline.job import Job
from exporters.pipeline.registry import exporter
from exporters.pipeline.weights import FOLDER
from servemark import interrupts
from servemark.errors import ArtifactError, ExitCode, OptionError
from servemark.output import SAYS
from servemark.repository.entry import Entry
from servemark.workload import Workload, get
from tests.support.exporting import FROM_TORCH, Exports, exports_by, variant
from tests.support.largest_file import largest_file


@pytest.fixture
def begun(exported: Exports, tmp_path: Path) -> Entry:
    """A repository of the test's own, in which the smallest workload is up to date."""
    made = exported("ncf_tiny", "pytorch")
    shutil.copytree(made.folder, tmp_path / made.folder.name)
    return Entry(tmp_path, made.workload, made.engine)


def copying(exported: Exports, engine: str) -> Callable[[Job], dict[str, object]]:
    """Write the smallest workload's artifact as it was made once: what is tested here is around an exporter's own."""
    made = exported("ncf_tiny", engine)

    def write(job: Job) -> dict[str, object]:
        shutil.copyfile(made.version / job.path.name, job.path)
        return {}

    return write


@pytest.fixture
def quick(exported: Exports, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let exports to PyTorch copy the artifact."""
    exports_by(monkeypatch, variant(exporter("pytorch"), write=copying(exported, "pytorch")))


def linear(tmp_path: Path, *, engine: str = "pytorch", force: bool = False, **changes: Any) -> ExportReport:
    """Export the smallest workload, changed."""
    return exporters.export(dataclasses.replace(get("ncf_tiny"), **changes), engine, tmp_path, force=force)


def test_export_says_nothing_on_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SAYS, raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for engine in FROM_TORCH:
            exporters.export(get("ranking_tiny"), engine, tmp_path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("quick")
def test_second_export_is_up_to_date_and_force_makes_it_anew(tmp_path: Path) -> None:
    first = linear(tmp_path)
    assert not first.up_to_date
    second = linear(tmp_path)
    assert second.up_to_date
    assert second.manifest == first.manifest
    assert not linear(tmp_path, force=True).up_to_date


def damage_artifact(entry: Entry) -> None:
    path = entry.version / "model.pt2"
    path.write_bytes(path.read_bytes()[:-100])


def damage_golden(entry: Entry) -> None:
    entry.golden.write_bytes(entry.golden.read_bytes()[:-100])


def damage_manifest(entry: Entry) -> None:
    entry.manifest.write_text(entry.manifest.read_text()[:-10])


def age_manifest(entry: Entry) -> None:
    entry.manifest.write_text(entry.manifest.read_text().replace(torch.__version__.partition("+")[0], "2.0.0"))


@pytest.mark.parametrize(
    "damage",
    [
        damage_artifact,
        damage_golden,
        damage_manifest,
        age_manifest,
        lambda entry: entry.golden.unlink(),
        lambda entry: entry.config.unlink(),
        lambda entry: (entry.version / "model.pt2").unlink(),
    ],
)
@pytest.mark.usefixtures("quick")
def test_anything_but_a_whole_recent_entry_is_made_anew(begun: Entry, tmp_path: Path, damage: Any) -> None:
    assert linear(tmp_path).up_to_date
    damage(begun)
    again = linear(tmp_path)
    assert (again.up_to_date, again.config_kept) == (False, False)
    assert linear(tmp_path).up_to_date


@pytest.mark.usefixtures("quick")
def test_edited_configuration_is_kept_unless_forced(begun: Entry, tmp_path: Path) -> None:
    entry, written = begun, begun.config.read_text()
    assert not linear(tmp_path).config_kept
    edited = written.replace("# max_queue", "max_queue")
    entry.config.write_text(edited)

    report = linear(tmp_path)
    assert (report.up_to_date, report.config_kept) == (True, True)
    for damage in (damage_artifact, damage_manifest, damage_golden):
        damage(entry)
        report = linear(tmp_path)
        assert (report.up_to_date, report.config_kept, entry.config.read_text()) == (False, True, edited)

    assert not linear(tmp_path, force=True).config_kept
    assert entry.config.read_text() == written


@pytest.mark.usefixtures("quick")
def test_a_damaged_configuration_is_written_anew_by_force(begun: Entry, tmp_path: Path) -> None:
    written = begun.config.read_text()
    begun.config.write_bytes(b"\xff")
    assert not linear(tmp_path, force=True).config_kept
    assert begun.config.read_text() == written


@pytest.mark.usefixtures("quick", "begun")
def test_what_an_artifact_is_made_from_is_exported_without_its_weights_being_remembered(tmp_path: Path) -> None:
    assert export._origin(get("ncf_tiny"), tmp_path, "pytorch", None).file.exists()
    assert not (tmp_path / FOLDER).exists()


def test_an_interrupt_between_the_renames_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        moved = rename(path, target)
        interrupts._note(signal.SIGINT, None)
        return moved

    for name in ("draft", "entry"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("")
    monkeypatch.setattr(interrupts, "_state", interrupts._State())
    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), interrupts.anywhere():
        export.swap_in(tmp_path / "draft", tmp_path / "entry")
    assert {path.name for path in (tmp_path / "entry").iterdir()} == {"draft", "entry"}


@pytest.mark.usefixtures("quick")
def test_files_that_are_not_servemarks_survive(begun: Entry, tmp_path: Path) -> None:
    entry = begun
    (entry.folder / "labels.txt").write_text("a film")
    (entry.folder / "2").mkdir()
    linear(tmp_path, force=True)
    assert {path.name for path in entry.folder.iterdir()} == {
        "1", "2", "config.pbtxt", "export.json", "golden.npz", "labels.txt"
    }  # fmt: skip


def drifting(exported: Exports, engine: str) -> Any:
    """An exporter of this engine whose artifact answers a little off."""
    real = exporter(engine)

    def load(path: Path, workload: Workload) -> Any:
        run = real.load(path, workload)
        return lambda inputs: {name: np.add(array, np.float32(0.01)) for name, array in run(inputs).items()}

    return variant(real, write=copying(exported, engine), load=load)


@pytest.mark.parametrize("engine", FROM_TORCH)
def test_out_of_tolerance_export_fails_and_leaves_nothing(
    exported: Exports, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exports_by(monkeypatch, drifting(exported, engine))
    with pytest.raises(ArtifactError, match=r"scores at batch 1 differs from eager PyTorch: .*by up to 0\.01"):
        linear(tmp_path, engine=engine)
    assert list(tmp_path.iterdir()) == []


def test_failed_export_keeps_what_was_there(
    exported: Exports, begun: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = begun.manifest.read_text()
    exports_by(monkeypatch, drifting(exported, "pytorch"))
    with pytest.raises(ArtifactError):
        linear(tmp_path, force=True)
    assert begun.manifest.read_text() == before
    assert list(tmp_path.iterdir()) == [begun.folder]


def test_wrong_parameter_count_stops_the_export(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="2,505 parameters, its workload says 2,506"):
        linear(tmp_path, parameters=2_506)
    assert list(tmp_path.iterdir()) == []


def test_model_that_breaks_its_interface_stops_the_export(tmp_path: Path) -> None:
    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(2_505))

        def forward(self, user: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
            return (user + items).double()

    with pytest.raises(ArtifactError, match=r"answers scores as float64 \[20\], its interface says float32 \[20\]"):
        linear(tmp_path, build=Doubled)


@pytest.mark.parametrize("engine", FROM_TORCH)
def test_a_model_that_fixes_the_batch_size_is_refused(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parity check itself notices: an artifact traced for a batch of two answers no other."""
    exports_by(monkeypatch, variant(exporter(engine), write=write_fixed))
    with pytest.raises(ArtifactError, match=r"cannot run a batch of 1: .*2"):
        linear(tmp_path, engine=engine)
    assert list(tmp_path.iterdir()) == []


def write_fixed(job: Job) -> dict[str, object]:
    names = [tensor.name for tensor in job.workload.inputs]
    tensors = tuple(torch.from_numpy(job.example[name]) for name in names)
    if job.path.suffix == ".pt2":
        torch.export.save(torch.export.export(job.model, tensors), job.path)
    else:
        outputs = ["scores"]
        torch.onnx.export(
            job.model, tensors, job.path, input_names=names, output_names=outputs, dynamo=True, verbose=False
        )
    return {}


def test_missing_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter("pytorch"), "PACKAGES", ("no-such-package",))
    with pytest.raises(ArtifactError, match=r"(?s)needs the package no-such-package.*\[export,torch\]"):
        linear(tmp_path)


def test_unknown_engine_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"onnxruntime, .*pytorch"):
        linear(tmp_path, engine="caffe")


def test_unwritable_repository_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match=r"cannot be written: .*Not a directory"):
        linear(tmp_path / "file" / "repository")


@pytest.mark.parametrize("engine", FROM_TORCH)
def test_full_disk_is_a_clear_error_and_leaves_nothing(tmp_path: Path, engine: str) -> None:
    with pytest.raises(ArtifactError, match=" cannot be written: ") as raised, largest_file(10_000):
        linear(tmp_path, engine=engine)
    assert raised.value.exit_code == ExitCode.BAD_INPUT
    assert "make room in" in str(raised.value.fix)
    assert list(tmp_path.iterdir()) == []


def test_manifest_is_plain_json(exported: Any) -> None:
    text = exported("ranking_tiny", "onnxruntime").manifest.read_text()
    assert json.loads(text, parse_constant=pytest.fail)["format"] == {"opset": 18, "ir_version": 10}
