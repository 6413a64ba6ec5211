"""Terminal during a run that is drawn: a screen of its own, and the terminal as it was after the run."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from servemark.output import NOTES, SAYS
from servemark.paths import CHECKOUT
from servemark.workload import get
from tests.support.locust_run import server_of

ENTER, LEAVE, SHOW_CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"
DEADLINE_S = 150.0
DRAWN = """
import json, os, sys, time
from servemark import interrupts
from servemark.views.live.screen import Screen
from servemark.views.live.watched import can_draw, drawn
from tests.servemark.views.live.test_screen import FIGURES
interrupts.install()
assert can_draw()
with drawn(Screen("ranking")) as drawing:
    os.write(drawing.words, b"metrics: http://127.0.0.1:9100\\x1b[2J\\n")
    for run in ("first run", "second run"):
        drawing.started(run)
        with drawing.figures_of(run) as figures:
            os.write(figures, b"{not json\\n" + json.dumps(FIGURES).encode() + b"\\n")
            interrupts.sleep(0.6)
        drawing.say("one is over")
    for _ in range(int(sys.argv[1])): interrupts.sleep(0.05)
print("after")
"""


class Terminal:
    """A program whose standard streams are a terminal of this width, and all that it has written."""

    def __init__(self, command: Sequence[str], columns: int, **environment: str) -> None:
        self.master, slave = pty.openpty()
        self.resize(columns)
        self._before = termios.tcgetattr(slave)
        self._slave = slave
        given = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS", "LINES"}}
        given |= {"TERM": "xterm-256color", "PYTHONPATH": str(CHECKOUT), SAYS: NOTES, **environment}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=given, cwd=CHECKOUT, start_new_session=True
        )
        os.set_blocking(self.master, False)
        self.written = ""

    def resize(self, columns: int) -> None:
        """Have another width."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self) -> None:
        """Take what was written since."""
        with contextlib.suppress(BlockingIOError, OSError):
            while data := os.read(self.master, 1 << 16):
                self.written += data.decode(errors="replace")

    def until(self, words: str) -> None:
        """Wait for words."""
        deadline = time.monotonic() + DEADLINE_S
        while words not in self.written:
            assert time.monotonic() < deadline, self.written
            self.read()
            time.sleep(0.02)

    def end(self) -> int:
        """Wait for the end, with the terminal's settings as they were; the exit code."""
        deadline = time.monotonic() + DEADLINE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.written
            self.read()
            time.sleep(0.02)
        self.read()
        assert termios.tcgetattr(self._slave) == self._before
        return self.process.returncode


@contextlib.contextmanager
def terminal(command: Sequence[str], columns: int = 80, **environment: str) -> Iterator[Terminal]:
    found = Terminal(command, columns, **environment)
    try:
        yield found
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(found.process.pid, signal.SIGKILL)
        found.process.wait()
        os.close(found.master)
        os.close(found._slave)


def check_restored(written: str) -> str:
    """One screen of its own was entered and left, the cursor is shown; what was written after it."""
    assert written.count(ENTER) == written.count(LEAVE) == 1
    screen, _, after = written.partition(LEAVE)
    assert SHOW_CURSOR in written[written.rindex("\x1b[?25l") :]
    assert ENTER in screen
    return after


def test_a_view_has_a_screen_of_its_own_and_words_are_kept() -> None:
    with terminal([sys.executable, "-c", DRAWN, "40"]) as seen:
        seen.until("VALID")
        code = seen.end()
    after = check_restored(seen.written)
    assert code == 0
    assert "metrics: http://127.0.0.1:9100" in seen.written.partition(LEAVE)[0]
    assert "metrics: http://127.0.0.1:9100" in after
    assert "after" in after
    assert after.count("one is over") == 2
    shown = seen.written.partition(LEAVE)[0]
    assert shown.index("first run") < shown.index("second run") < shown.index("ended")


def test_another_width_is_drawn_anew() -> None:
    with terminal([sys.executable, "-c", DRAWN, "400"], columns=120) as seen:
        seen.until("constraints hold")
        seen.resize(40)
        seen.read()
        seen.written = seen.written[: seen.written.index(ENTER) + len(ENTER)] + "\x1b[?25l"
        seen.until("18.76")
        os.killpg(seen.process.pid, signal.SIGINT)
        seen.end()
    check_restored(seen.written)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_clean_terminal(number: signal.Signals) -> None:
    with terminal([sys.executable, "-c", DRAWN, "4000"]) as seen:
        seen.until("VALID")
        os.killpg(seen.process.pid, number)
        assert seen.end() != 0
    assert "KeyboardInterrupt" in check_restored(seen.written)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a server that looks like two models."""
    with server_of(get("ranking_tiny"), aliases=["ranking_onnxruntime"]) as server:
        yield server.url


def command(url: str, out: Path, *flags: str, workload: str = "ranking_tiny") -> list[str]:
    load = ["--request-rate", "50", "--warmup", "0.2", "--out", str(out), "--url", url, *flags]
    return [sys.executable, "-m", "servemark", "run", workload, *load]


def test_ctrl_c_ends_the_run_that_is_drawn_and_its_report_stands_on_the_terminal(tmp_path: Path, url: str) -> None:
    with terminal(command(url, tmp_path, "--duration", "300"), columns=40, NO_COLOR="1") as seen:
        seen.until("measuring")
        os.killpg(seen.process.pid, signal.SIGINT)
        code = seen.end()
    after = check_restored(seen.written)
    drawn = seen.written.partition(LEAVE)[0]
    assert code == 130
    assert "ranking_tiny" in drawn
    assert "in flight" in drawn
    assert "Result is" not in drawn
    assert "Result is" in after
    assert "result: " in after


def test_a_terminal_that_cannot_move_its_cursor_has_lines(tmp_path: Path, url: str) -> None:
    with terminal(command(url, tmp_path, "--duration", "0.3"), TERM="dumb") as seen:
        seen.end()
    assert ENTER not in seen.written
    assert "Result is" in seen.written


def test_a_run_that_cannot_begin_says_why(tmp_path: Path) -> None:
    with terminal(command("http://127.0.0.1:9", tmp_path)) as seen:
        code = seen.end()
    assert code not in {0, 2}
    assert "no server answers at http://127.0.0.1:9" in seen.written.replace("\r\n", " ")


def test_a_mix_is_drawn_side_by_side(tmp_path: Path, url: str) -> None:
    flags = ["--duration", "2", "--model-repository", str(tmp_path / "none")]
    line = command(url, tmp_path, *flags, workload="ranking_tiny=3,ranking=1")
    with terminal(line, columns=100, NO_COLOR="1") as seen:
        code = seen.end()
    after = check_restored(seen.written)
    shown = re.sub(r"\x1b\[[\d;]*m", "", seen.written.partition(LEAVE)[0])
    assert code in {0, 2}
    assert re.search(r"run +ranking_tiny_onnxruntime, 75.0% +ranking_onnxruntime, 25.0%", shown)
    assert re.search(r"now +measuring, \d of 2 s left +measuring", shown)
    assert "Result is" not in shown
    assert after.count("Result is") == 1
