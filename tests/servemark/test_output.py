"""Foreign words reach the terminal as they are, and steer nothing there."""

import pytest

from servemark.output import note, printable, stdout

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
