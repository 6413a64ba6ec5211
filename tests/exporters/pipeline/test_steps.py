"""Steps of an export: in place on a terminal, one line each elsewhere, none where only errors are said."""

import sys
import threading

import pytest

from exporters.pipeline import steps
from exporters.pipeline.steps import step
from servemark.output import ERRORS, NOTES, SAYS


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
