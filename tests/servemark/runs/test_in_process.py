"""`servemark run --in-process` as a user starts it: its result, its end, and what it cannot do."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import exporters
from exporters.pipeline import export as exporting
from exporters.pipeline.export import ExportReport
from servemark.figures.registry import count_of, value_of, why_unknown
from servemark.paths import CHECKOUT
from servemark.repository.entry import Entry
from servemark.workload import Arrays, get
from tests.support.command_line import Servemark
from tests.support.exporting import Exports
from tests.support.locust_run import results_in, the_result
from tests.support.result_checks import constraint

TINY = "ranking_tiny"


@pytest.fixture
def repository(exported: Exports) -> Path:
    """A repository with the model."""
    return exported(TINY, "onnxruntime").repository


def command(repository: Path, out: Path, *flags: str) -> list[str]:
    return ["run", TINY, "--in-process", "--model-repository", str(repository), "--out", str(out), *flags]


def test_a_run_without_a_server_exports_first_and_is_measured_like_one_with(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    servemark: Servemark,
    exported: Exports,
) -> None:
    made = exported(TINY, "onnxruntime")
    capfd.readouterr()  # of the export, where it is the first

    def export(task: exporting.Task) -> ExportReport:
        """Take the artifact that was made for all tests."""
        shutil.copytree(made.folder, task.entry.folder)
        return replace(exporters.export(get(task.workload), task.engine, task.repository), up_to_date=False)

    monkeypatch.setattr(exporting, "export_isolated", export)
    flags = ["--request-rate", "200", "--duration", "1", "--warmup", "0.2", "--instances", "2", "-b", "2", "--json"]
    _, out, said = servemark(*command(tmp_path / "models", tmp_path / "out", *flags))
    result = json.loads(out)
    assert result == the_result(tmp_path / "out")
    manifest = Entry(tmp_path / "models", TINY, "onnxruntime").read_manifest()
    assert manifest is not None
    assert result["artifact_sha256"] == manifest["artifact_sha256"]
    assert (result["protocol"], result["shared_memory"], result["resolved"]["url"]) == ("in-process", "none", None)
    assert (result["engine"], result["device"], result["provider"]) == ("onnxruntime", "cpu", "CPUExecutionProvider")
    # so small a model is exported with one thread, which the engine gets here as it does in Triton
    assert result["resolved"]["engine_options"] == {"intra_op_thread_count": "1"}
    assert result["resolved"]["instances"] == 2
    assert count_of(result, "errors.count") == 0
    assert count_of(result, "requests.answered") > 100
    assert value_of(result, "server.queue") is None
    assert why_unknown(result, "server.queue") == "in-process: there is no server"
    assert count_of(result, "outputs.checked") > 0
    assert constraint(result, "output_agreement")["ok"]
    assert said == ""  # beside a JSON document


def test_nothing_is_patched_and_no_server_is_needed_in_this_path(repository: Path, tmp_path: Path) -> None:
    code = f"""
import sys
sys.argv = {["servemark", *command(repository, tmp_path, "--duration", "0.3", "--warmup", "0")]!r}
from servemark.cli import main
try:
    main()
finally:
    from gevent.monkey import saved
    print("patched:", saved, [name for name in ("locust", "tritonclient.http") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.splitlines()[-1] == "patched: {} []"
    assert count_of(the_result(tmp_path), "requests.answered") > 0


def test_an_engine_that_fails_under_load_makes_the_run_invalid(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servemark: Servemark
) -> None:
    from servers.engines.onnxruntime import OnnxRuntime

    run, calls = OnnxRuntime.run, []

    def failing(self: OnnxRuntime, inputs: Arrays) -> Arrays:
        calls.append(1)
        if len(calls) % 2:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return run(self, inputs)

    monkeypatch.setattr(OnnxRuntime, "run", failing)
    code, out, _ = servemark(*command(repository, tmp_path, "--duration", "1", "--warmup", "0"))
    result = the_result(tmp_path)
    errors = result["details"]["errors"]
    assert code == 2
    assert errors["by_kind"].keys() == {"engine_error"}
    assert errors["messages"]["engine_error"] == ["onnxruntime: CUDA error: an illegal memory access was encountered"]
    assert not constraint(result, "error_rate")["ok"]
    assert "illegal memory access" in out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--device", "cuda:63"], "cuda:63"),
        (["--engine-option", "no_such=1"], "no_such"),
    ],
)
def test_what_cannot_be_done_is_an_error(
    flags: list[str], words: str, repository: Path, tmp_path: Path, servemark: Servemark
) -> None:
    code, _, err = servemark(*command(repository, tmp_path, *flags))
    assert code == 3
    assert results_in(tmp_path) == []
    assert words in err
