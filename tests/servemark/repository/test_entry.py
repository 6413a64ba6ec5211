"""An entry of the model repository: the commands that make and serve it."""

import io
import os
from pathlib import Path

import numpy as np
import pytest

from exporters.pipeline.export import Task, export_isolated
from loadgen.targets.http import HttpTarget
from servemark.errors import ArtifactError, ServerError
from servemark.paths import MODEL_REPOSITORY
from servemark.repository.entry import Entry
from servemark.workload import tensor
from tests.support.load_config import config

INT8 = Entry(MODEL_REPOSITORY, "ranking_tiny", "onnxruntime", "int8")


def test_a_command_names_the_precision_unless_it_is_the_full_one() -> None:
    assert INT8.serve_command() == "servemark serve ranking_tiny --engine onnxruntime --precision int8"
    assert INT8.export_command() == "servemark export ranking_tiny --engine onnxruntime --precision int8"
    full = Entry(MODEL_REPOSITORY, "ncf", "pytorch")
    assert (full.serve_command(), full.export_command(force=True)) == (
        "servemark serve ncf --engine pytorch",
        "servemark export ncf --engine pytorch --force",
    )


def test_an_entry_that_is_not_there_is_exported_to_where_it_is_looked_for(tmp_path: Path) -> None:
    elsewhere = Entry(tmp_path / "of ours", "ncf", "pytorch")
    for made, force in ((False, ""), (True, " --force")):
        if made:
            elsewhere.folder.mkdir(parents=True)
            elsewhere.config.touch()
        with pytest.raises(ArtifactError) as error:
            elsewhere.require()
        assert error.value.fix == (
            f"servemark export ncf --engine pytorch{force} --model-repository '{elsewhere.repository}'"
        )
    with pytest.raises(ArtifactError) as error:
        Entry(MODEL_REPOSITORY, "ncf", "nowhere").require()
    assert error.value.fix == "servemark export ncf --engine nowhere"


def test_a_run_asks_for_a_server_of_its_own_precision() -> None:
    with pytest.raises(ServerError) as error:
        HttpTarget(config("ranking_tiny", "--precision", "int8", "--url", "http://127.0.0.1:9")).prepare()
    assert INT8.serve_command() in str(error.value.fix)


class Killed(Task):
    """An export whose process ends in the middle of it."""

    def export(self) -> None:  # type: ignore[override]
        os._exit(9)


def test_an_export_that_was_killed_names_its_own_precision(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as error:
        export_isolated(Killed("ranking_tiny", "onnxruntime", "int8", tmp_path, force=False))
    assert str(error.value.fix).startswith(INT8.export_command())


def _broken_archive(kind: str) -> bytes:
    """A file of golden samples, damaged."""
    buffer = io.BytesIO()
    if kind == "one array":
        np.save(buffer, np.zeros(3))
    elif kind == "other names":
        np.savez(buffer, x=np.zeros(3))
    elif kind == "lengths":
        np.savez(buffer, **{"input:x": np.zeros(3), "output:y": np.zeros(2)})
    elif kind == "a number":
        np.savez(buffer, **{"input:x": np.array(3)})
    else:
        np.savez_compressed(buffer, **{"input:x": np.arange(1000)})
    data = bytearray(buffer.getvalue())
    if kind == "compressed data":
        data[100:140] = b"\xff" * 40
    elif kind == "encrypted":
        data[6] |= 1
        data[data.index(b"PK\x01\x02") + 8] |= 1
    elif kind == "method":
        data[8] = 77
        data[data.index(b"PK\x01\x02") + 10] = 77
    return bytes(data)


DAMAGED = ["one array", "other names", "lengths", "a number", "compressed data", "encrypted", "method"]


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_golden_samples_name_the_export(kind: str, tmp_path: Path) -> None:
    entry = Entry(tmp_path, "ranking_tiny", "onnxruntime")
    entry.folder.mkdir()
    entry.golden.write_bytes(_broken_archive(kind))
    with pytest.raises(ArtifactError, match=r"golden\.npz cannot be read") as error:
        entry.read_golden()
    assert "servemark export" in str(error.value.fix)


def test_an_archive_that_unpacks_to_more_than_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor, "MAX_UNPACKED_BYTES", 1 << 20)
    entry = Entry(tmp_path, "ranking_tiny", "onnxruntime")
    entry.folder.mkdir()
    np.savez_compressed(entry.golden, **{"input:x": np.zeros(1 << 20, "i1")})
    assert entry.golden.stat().st_size < 10_000
    with pytest.raises(ArtifactError, match="unpacks to"):
        entry.read_golden()


@pytest.mark.parametrize("text", ["[1]", "[" * 200_000, "{", "\xff"])
def test_a_damaged_manifest_names_the_export(text: str, tmp_path: Path) -> None:
    entry = Entry(tmp_path, "ranking_tiny", "onnxruntime")
    entry.folder.mkdir()
    entry.manifest.write_text(text, encoding="latin-1")
    with pytest.raises(ArtifactError, match=r"export\.json cannot be read"):
        entry.read_manifest()
