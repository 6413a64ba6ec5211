"""Steps of an export: in place on a terminal, one line each elsewhere, none where only errors are said.

What a converter cannot read or an engine cannot load is an error of one line, in its own words.
"""

import re
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

import exporters
from exporters.pipeline import export, steps
from exporters.pipeline.job import Job
from exporters.pipeline.registry import exporter
from exporters.pipeline.steps import MAX_WORDS, converting, loading, step, words
from servemark.errors import ArtifactError, ExitCode, OptionError, ServemarkError
from servemark.output import ERRORS, NOTES, SAYS
from servemark.repository.entry import Entry
from servemark.workload import get
from tests.support.exporting import exports_by, variant


@pytest.mark.parametrize(("says", "lines"), [(NOTES, ["a: writing", "a: building"]), (ERRORS, [])])
def test_each_step_is_one_line_in_a_pipe(
    says: str, lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SAYS, says)
    with step("a: writing"), step("a: building"):
        pass
    assert [line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()] == lines


def test_a_terminal_shows_the_innermost_step_and_is_left_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    shown = {name: threading.Event() for name in ("outer", "inner")}

    def say(text: str) -> None:
        said.append(text)
        for name, event in shown.items():
            if f"{name}, 0 s" in text:
                event.set()

    monkeypatch.setattr(steps, "say", say)
    monkeypatch.setattr(steps, "RENEWED_S", 0.001)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with step("outer"):
        assert shown["outer"].wait(10)
        with step("inner"):
            assert shown["inner"].wait(10)
            inside = len(said)
            shown["inner"].clear()
            assert shown["inner"].wait(10)
            assert not any("outer" in text for text in said[inside:])
        shown["outer"].clear()
        assert shown["outer"].wait(10)
    assert said[-1] == "\r\x1b[K"


def failed() -> RuntimeError:
    """An error as PyTorch's ONNX exporter raises it: around the one that stopped it."""
    error = RuntimeError("step 2/3, see the report")
    error.__cause__ = ValueError("Cannot view a tensor\n with these strides")
    return error


@pytest.mark.parametrize(
    ("error", "kind", "what"),
    [
        (
            failed(),
            ArtifactError,
            "onnxruntime in fp32 cannot be made of x: ValueError: Cannot view a tensor with these",
        ),
        (OptionError("no such option"), OptionError, "no such option"),
    ],
)
def test_a_converter_s_innermost_error_is_quoted(
    error: Exception, kind: type[ServemarkError], what: str, tmp_path: Path
) -> None:
    with pytest.raises(kind) as raised, converting(Entry(tmp_path, "mine", "onnxruntime", "fp32"), "x"):
        raise error
    assert raised.value.what.startswith(what)


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

    exports_by(monkeypatch, variant(exporter(engine), write=write, FROM_ONNX=(), PACKAGES=()))
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
