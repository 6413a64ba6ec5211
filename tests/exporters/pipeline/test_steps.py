"""Steps of an export: in place on a terminal, one line each elsewhere, none where only errors are said.

An error of a converter is quoted by its innermost cause.
"""

import sys
import threading
from pathlib import Path

import pytest

from exporters.pipeline import steps
from exporters.pipeline.steps import converting, step
from servemark.errors import ArtifactError, OptionError, ServemarkError
from servemark.output import ERRORS, NOTES, SAYS
from servemark.repository.entry import Entry


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
