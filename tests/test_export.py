"""Exports: parity with eager PyTorch, entries that are whole or not there, configurations that survive."""

import dataclasses
import json
import resource
import shutil
import subprocess
import sys
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import exporters
from exporters import ExportReport, _pipeline, parity
from exporters._job import Job
from exporters._registry import exporter
from servemark import models
from servemark.agreement import compare
from servemark.artifacts import Arrays, Entry
from servemark.errors import ArtifactError, OptionError
from servemark.models import Workload
from tests.exporting import FROM_TORCH, Exports, variant

SLOW_ABOVE = 5_000_000
"""Full-size workloads of more parameters are exported in the slow suite only, and may take longer than a test."""
SLOW = [pytest.mark.slow, pytest.mark.timeout(900)]
EXPORTS = [
    pytest.param(name, engine, id=f"{name}-{engine}", marks=SLOW if slow else [])
    for full in models.workloads().values()
    for name, slow in ((f"{full.name}_tiny", False), (full.name, full.parameters > SLOW_ABOVE))
    for engine in FROM_TORCH
]


@pytest.fixture
def begun(exported: Exports, tmp_path: Path) -> Entry:
    """A repository of the test's own, in which the smallest workload is up to date."""
    made = exported("ncf_tiny", "pytorch")
    shutil.copytree(made.folder, tmp_path / made.folder.name)
    return Entry(tmp_path, made.workload, made.engine)


def linear(tmp_path: Path, *, engine: str = "pytorch", force: bool = False, **changes: Any) -> ExportReport:
    """Export the smallest workload, changed."""
    return exporters.export(dataclasses.replace(models.get("ncf_tiny"), **changes), engine, tmp_path, force=force)


def run_artifact(entry: Entry, inputs: Arrays) -> Arrays:
    """Run an artifact with nothing of servemark's exporters in between."""
    if entry.engine == "onnxruntime":
        import onnxruntime

        session = onnxruntime.InferenceSession(entry.version / "model.onnx", providers=["CPUExecutionProvider"])
        return dict(zip([o.name for o in session.get_outputs()], session.run(None, dict(inputs)), strict=True))
    program = torch.export.load(entry.version / "model.pt2")
    with torch.inference_mode():
        answer: Any = program.module()(*(torch.from_numpy(array) for array in inputs.values()))
    answer = answer if isinstance(answer, tuple) else (answer,)
    names = [tensor.name for tensor in models.get(entry.workload).outputs]
    return {name: tensor.numpy() for name, tensor in zip(names, answer, strict=True)}


@pytest.mark.parametrize(("name", "engine"), EXPORTS)
def test_artifact_answers_unseen_inputs_like_eager_pytorch_at_any_batch(exported: Any, name: str, engine: str) -> None:
    workload, entry = models.get(name), exported(name, engine)
    rows = 7
    drawn = islice(workload.samples(np.random.default_rng(99)), 2 * rows)
    # where sizes vary, the smaller half: the largest take a full-size model minutes
    samples = sorted(drawn, key=lambda sample: sum(array.nbytes for array in sample.values()))[:rows]
    inputs: Arrays = models.stack(samples, workload.inputs)
    golden = parity.eager(workload.build(), workload, inputs)
    for size in (1, 2, rows):
        answer = run_artifact(entry, {name: array[:size] for name, array in inputs.items()})
        for tensor in workload.outputs:
            reference = golden.outputs[tensor.name][:size]
            assert (answer[tensor.name].dtype, answer[tensor.name].shape) == (tensor.dtype, reference.shape)
            assert tensor.fits(reference.shape[1:])
            assert compare(answer[tensor.name], reference, workload.agreement).agrees
            if tensor.dtype.kind == "f":
                got, expected = answer[tensor.name].astype(np.float64), reference.astype(np.float64)
                np.testing.assert_allclose(got, expected, atol=max(1e-3, workload.agreement.atol))


@pytest.mark.parametrize(("name", "engine"), EXPORTS)
def test_entry_is_complete_and_describes_itself(exported: Any, name: str, engine: str) -> None:
    workload, entry = models.get(name), exported(name, engine)
    entry.require()
    manifest = entry.read_manifest()
    assert manifest is not None
    assert (manifest["workload"], manifest["engine"], manifest["precision"]) == (name, engine, "fp32")
    assert manifest["parameters"] == workload.parameters
    assert manifest["agreement"] == dataclasses.asdict(workload.agreement)
    assert manifest["versions"]["torch"] == torch.__version__.partition("+")[0]
    assert manifest["seconds"] > 0
    assert manifest["peak_rss_mib"] > 50
    assert set(manifest["parity"]) == {"batch_1", "batch_3"}
    for outputs in manifest["parity"].values():
        assert set(outputs) == {tensor.name for tensor in workload.outputs}
        assert all(each["agrees"] for each in outputs.values())
    golden = entry.read_golden()
    assert golden is not None
    assert golden.rows == 16
    tensors, arrays = (*workload.inputs, *workload.outputs), golden.inputs | golden.outputs
    assert {name: array.dtype for name, array in arrays.items()} == {t.name: t.dtype for t in tensors}
    assert all(tensor.fits(arrays[tensor.name].shape[1:]) for tensor in tensors)


@pytest.mark.parametrize(("name", "engine"), EXPORTS)
def test_configuration_is_what_triton_reads(exported: Any, name: str, engine: str) -> None:
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    workload, entry = models.get(name), exported(name, engine)
    config: Any = text_format.Parse(entry.config.read_text(), model_config_pb2.ModelConfig())
    assert (config.name, config.backend, config.max_batch_size) == (entry.model, engine, workload.max_batch)
    assert (entry.version / config.default_model_filename).is_file()
    assert config.HasField("dynamic_batching")
    assert [(g.count, g.kind) for g in config.instance_group] == [(1, model_config_pb2.ModelInstanceGroup.KIND_CPU)]
    for written, tensors in ((config.input, workload.inputs), (config.output, workload.outputs)):
        assert [(t.name, model_config_pb2.DataType.Name(t.data_type), tuple(t.dims)) for t in written] == [
            (t.name, f"TYPE_{t.datatype}", t.shape) for t in tensors
        ]


def test_commented_settings_are_valid_once_uncommented(exported: Any) -> None:
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    lines = exported("din_tiny", "onnxruntime").config.read_text().splitlines()
    assert sum(line.lstrip().startswith("# ") for line in lines) > 5
    text = "\n".join(
        line.replace("# ", "", 1) if "# max_queue" in line or "# preferred" in line or "# parameters" in line else line
        for line in lines
    )
    config: Any = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert config.dynamic_batching.max_queue_delay_microseconds == 500
    assert list(config.dynamic_batching.preferred_batch_size) == [4, 8, 16, 32]
    assert config.parameters["intra_op_thread_count"].string_value == "1"


@pytest.mark.parametrize("name", [f"{name}_tiny" for name in models.names()])
def test_onnx_file_is_of_the_promised_versions_and_self_contained(exported: Any, name: str) -> None:
    import onnx

    entry = exported(name, "onnxruntime")
    assert [path.name for path in entry.version.iterdir()] == ["model.onnx"]
    model = onnx.load(entry.version / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version <= 10
    assert [(opset.domain, 17 <= opset.version <= 20) for opset in model.opset_import] == [("", True)]
    for value in (*model.graph.input, *model.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"


def test_export_says_nothing_on_its_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for engine in FROM_TORCH:
            exporters.export(models.get("ranking_tiny"), engine, tmp_path)
    assert capfd.readouterr() == ("", "")


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
def test_anything_but_a_whole_recent_entry_is_made_anew(begun: Entry, tmp_path: Path, damage: Any) -> None:
    assert linear(tmp_path).up_to_date
    damage(begun)
    again = linear(tmp_path)
    assert (again.up_to_date, again.config_kept) == (False, False)
    assert linear(tmp_path).up_to_date


def test_edited_configuration_is_kept_unless_forced(begun: Entry, tmp_path: Path) -> None:
    entry = begun
    assert not linear(tmp_path).config_kept
    written = entry.config.read_text()
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


def test_files_that_are_not_servemarks_survive(begun: Entry, tmp_path: Path) -> None:
    entry = begun
    (entry.folder / "labels.txt").write_text("a film")
    (entry.folder / "2").mkdir()
    linear(tmp_path, force=True)
    assert {path.name for path in entry.folder.iterdir()} == {
        "1", "2", "config.pbtxt", "export.json", "golden.npz", "labels.txt"
    }  # fmt: skip


def drifting(workload: Workload, engine: str) -> Any:
    """An exporter of this engine whose artifact answers a little off."""
    real = exporter(engine)

    def load(path: Path, _: Workload) -> Any:
        run = real.load(path, workload)
        return lambda inputs: {name: np.add(array, np.float32(0.01)) for name, array in run(inputs).items()}

    return variant(real, load=load)


@pytest.mark.parametrize("engine", FROM_TORCH)
def test_out_of_tolerance_export_fails_and_leaves_nothing(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = models.get("ncf_tiny")
    module = drifting(workload, engine)
    monkeypatch.setattr(_pipeline, "exporter", lambda _: module)
    with pytest.raises(ArtifactError, match=r"scores at batch 1 differs from eager PyTorch: .*max_abs 0\.01"):
        exporters.export(workload, engine, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_failed_export_keeps_what_was_there(begun: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload, entry = models.get("ncf_tiny"), begun
    before = entry.manifest.read_text()
    module = drifting(workload, "pytorch")
    monkeypatch.setattr(_pipeline, "exporter", lambda _: module)
    with pytest.raises(ArtifactError):
        linear(tmp_path, force=True)
    assert entry.manifest.read_text() == before
    assert list(tmp_path.iterdir()) == [entry.folder]


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
    real = exporter(engine)
    module = variant(real, write=write_fixed)
    monkeypatch.setattr(_pipeline, "exporter", lambda _: module)
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
    """A limit on the size of a file fails writes as a full disk does; in a process of its own, since it is for good."""
    code = f"""
import resource, signal, sys
from pathlib import Path
import exporters
from servemark import models
from servemark.errors import ArtifactError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, {resource.RLIM_INFINITY}))
try:
    exporters.export(models.get("ncf_tiny"), {engine!r}, Path({str(tmp_path)!r}))
except ArtifactError as error:
    print(error)
    sys.exit(int(error.exit_code))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3, done.stderr
    assert "cannot be written" in done.stdout
    assert "make room in" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [f"{name}_tiny" for name in models.names()])
def test_agreement_fails_an_engine_that_ignores_its_input(exported: Any, name: str) -> None:
    """Every output has to vary from request to request by more than its tolerance, or parity would prove nothing."""
    workload, golden = models.get(name), exported(name, "pytorch").read_golden()
    for output in golden.outputs.values():
        other = np.roll(output, 1, axis=0)
        told = (output != 0) | (other != 0)  # padding is the same in all rows
        one, another = output[told][:, None], other[told][:, None]
        assert compare(another, one, workload.agreement).match_share < 0.5


def test_manifest_is_plain_json(exported: Any) -> None:
    text = exported("ranking_tiny", "onnxruntime").manifest.read_text()
    assert json.loads(text, parse_constant=pytest.fail)["format"] == {"opset": 18, "ir_version": 10}
