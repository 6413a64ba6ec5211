"""Foreign words reach the terminal as they are, and steer nothing there."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servemark.output import ERRORS, SAYS, note, printable, say, stderr, stdout

HOSTILE = "\x1b[2J\x1b]0;title\x07 \x9b31m \u202edcba \ud800 \r"
ESCAPED = r"\u001b[2J\u001b]0;title\u0007 \u009b31m \u202edcba \ud800 \u000d"


def test_what_steers_a_terminal_is_escaped() -> None:
    assert printable(HOSTILE) == ESCAPED
    assert printable("wörter 漢字 \u00a0 😀\n\tas they are") == "wörter 漢字 \u00a0 😀\n\tas they are"


def test_words_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("root:x:0", "[red]no markup[/]", "[/]"):
        note(words)
        stdout().print(words)
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == (f"{words}\n", f"{words}\n")
    note(HOSTILE)
    stdout().print(HOSTILE, style="red", soft_wrap=True)
    for seen in capsys.readouterr():
        assert seen == printable(seen)
        assert seen.startswith(r"\u001b[2J\u001b]0;title")


def test_where_only_errors_are_said_there_are_no_notes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SAYS, ERRORS)
    note("a note")
    say("progress")
    stderr.print("an error")
    assert capsys.readouterr().err == "an error\n"


SHOW = """
import sys
from servemark.output import note, say, stdout
for _ in range(3):
    note("a note")
    say("progress\\n")
    stdout(kept=True).print("figures " * 2000)
sys.exit(4)
"""


@pytest.mark.parametrize("streams", [("stdout",), ("stderr",), ("stdout", "stderr")])
@pytest.mark.parametrize("gone", ["full disk", "closed pipe"])
def test_words_that_nobody_can_read_change_nothing(gone: str, streams: tuple[str, ...]) -> None:
    with contextlib.ExitStack() as stack:
        if gone == "full disk":
            sink: Any = stack.enter_context(Path("/dev/full").open("w"))
        else:
            reader, writer = os.pipe()
            os.close(reader)
            sink = stack.enter_context(os.fdopen(writer, "w"))
        where: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **dict.fromkeys(streams, sink)}
        done = subprocess.run([sys.executable, "-c", SHOW], **where, text=True, timeout=60, check=False)
    assert done.returncode == 4
    if "stdout" not in streams:
        assert done.stdout.count("figures") == 6000
    if "stderr" not in streams:
        assert done.stderr == "a note\nprogress\n" * 3
