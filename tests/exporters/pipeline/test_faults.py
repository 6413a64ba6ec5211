"""Files that a converter cannot read and artifacts that an engine cannot load: one line, in the engine's words."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import exporters
from exporters.pipeline import export
from exporters.pipeline.job import Job
from exporters.pipeline.registry import exporter
from exporters.pipeline.steps import MAX_WORDS, loading, words
from servemark.errors import ArtifactError, ExitCode
from servemark.repository.entry import Entry
from servemark.workload import get
from tests.support.exporting import variant


@pytest.mark.parametrize("engine", [name for name in exporters.engines() if exporter(name).DEVICE == "cpu"])
def test_an_artifact_that_an_engine_cannot_load_is_its_own_fault(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(job: Job) -> Mapping[str, object]:
        assert job.golden.rows
        if job.path.suffix == ".savedmodel":
            job.path.mkdir()
        (job.path / "saved_model.pb" if job.path.is_dir() else job.path).write_bytes(b"no model")
        return {}

    module = variant(exporter(engine), write=write, FROM_ONNX=(), PACKAGES=())
    monkeypatch.setattr(export, "exporter", lambda _: module)
    monkeypatch.setattr(export, "route", lambda *_: None)
    with pytest.raises(ArtifactError) as raised:
        exporters.export(get("ncf_tiny"), engine, tmp_path)
    assert raised.value.exit_code == ExitCode.BAD_INPUT
    assert re.match(rf"{engine} cannot load ncf_tiny_{engine}: \S", raised.value.what)
    assert str(tmp_path) not in raised.value.what
    assert raised.value.fix
    assert not list(tmp_path.glob("ncf*"))


def test_what_is_refused_in_plain_words_stays_as_it_is(tmp_path: Path) -> None:
    plain = ArtifactError("this CPU has no bf16", fix="take another")
    with pytest.raises(ArtifactError) as raised, loading(Entry(tmp_path, "name", "engine")):
        raise plain
    assert raised.value is plain


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("Node (a) of type Resize:\n  no  float16:"), "Node (a) of type Resize: no float16"),
        (ValueError(""), "ValueError"),
        (RuntimeError("cannot open /draft/1/model.onnx"), "cannot open model.onnx"),
        (ValueError("a" * (MAX_WORDS - 1) + ": b"), "a" * (MAX_WORDS - 1)),
    ],
)
def test_an_error_is_quoted_in_one_line_that_says_something(error: Exception, said: str) -> None:
    assert words(error, Path("/draft/1")) == said
