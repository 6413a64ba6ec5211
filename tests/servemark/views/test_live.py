"""Runs that go on: their figures as lines of a terminal of any width, a screen of its own, the terminal afterwards."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from servemark.output import NOTES, SAYS
from servemark.paths import CHECKOUT
from servemark.results.schema.run import LiveFigures
from servemark.views.live import LiveRun, Screen, sparkline
from servemark.workload import get
from tests.servemark.views.snapshots import assert_unchanged
from tests.support.locust_run import server_of

FIGURES: LiveFigures = {
    "time_s": 1007.2,
    "elapsed_s": 7.2,
    "auto_warmup": False,
    "whole_s": 12,
    "answered": 8640,
    "asked_rate": 1200,
    "figures": {
        "latency.p50": {"value": 4.58, "unit": "ms"},
        "latency.p99": {"value": 18.76, "unit": "ms"},
        "schedule_delay.p99": {"value": 0.41, "unit": "ms"},
    },
    "second_p50_ms": 4.5,
    "second_p99_ms": 18.0,
    "in_flight": 12,
    "backlog": 0,
    "queue": 3,
    "errors": {"timeout": 2, "http_500": 10},
    "power_w": {"gpu_board": 95.2, "wall": 310},
    "constraints": {"completed": True, "schedule_delay_p99": True},
    "objectives": {"p99:20": "met"},
}
ENTER, LEAVE, SHOW_CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"
DEADLINE_S = 150.0
DRAWN = """
import os, sys
from servemark import interrupts
from servemark.views.live import Screen, drawn_where_seen
interrupts.install()
with drawn_where_seen(Screen("ranking"), quiet=False, grace_s=0) as drawing:
    if drawing is None: sys.exit("no screen")
    os.write(drawing.words, b"metrics: http://127.0.0.1:9100\\x1b[2J\\n")
    for run in ("first run", "second run"):
        drawing.started(run)
        with drawing.figures_of(run) as figures:
            os.write(figures, b"{not json\\n" + sys.argv[2].encode() + b"\\n")
            interrupts.sleep(0.6)
        drawing.say("one is over")
    for _ in range(int(sys.argv[1])): interrupts.sleep(0.05)
print("after")
"""


def drawn(screen: Screen, width: int = 80, *, terminal: bool = False, **environment: str) -> str:
    """A frame of this width: its text, or what a terminal gets."""
    colours: Any = "truecolor" if terminal else None
    console = Console(
        width=width, height=24, force_terminal=terminal, color_system=colours, highlight=False, _environ=environment
    )
    with console.capture() as captured:
        console.print(screen)
    return captured.get()


def run_of(*figures: dict[str, Any], name: str = "open loop, poisson 1200 requests/s") -> LiveRun:
    run = LiveRun(name)
    for changes in figures or ({},):
        run.take({**FIGURES, **changes})  # type: ignore[typeddict-item]  # some of its keys
    return run


def screen_of(*runs: LiveRun) -> Screen:
    screen = Screen("ranking_onnxruntime, http")
    screen.show(*runs)
    return screen


STATES: dict[str, dict[str, Any]] = {
    "a warm-up": {"elapsed_s": -2.4},
    "a warm-up that ends by itself": {"elapsed_s": -2.4, "auto_warmup": True},
    "answers are late": {"elapsed_s": 12.5},
    "not judged yet": {"constraints": {}},
    "INVALID": {"constraints": {"completed": True, "achieved_rate": False}},
    "no errors": {"errors": {}},
    "a backlog": {"backlog": 1500},
    "no figures": {"figures": {}},
}


def test_frames_are_as_the_snapshot_has_them() -> None:
    before = {"time_s": 1006.2, "elapsed_s": 6.2, "answered": 7400, "second_p99_ms": 9.0}
    meterless = run_of({"power_w": {}, "errors": {}}, name="ncf, 30.0%")
    stopping, over, talking = screen_of(LiveRun("closed loop")), LiveRun("closed loop"), screen_of(run_of())
    with pytest.raises(KeyError), stopping.until_stopped():
        raise KeyError
    over.ended = True
    for number in range(50):
        talking.say(f"run {number}: met")
    frames = {
        "every figure": drawn(screen_of(run_of(before, {}))),
        **{name: drawn(screen_of(run_of(changes))) for name, changes in STATES.items()},
        "before its first figures": drawn(screen_of(LiveRun("closed loop"))),
        "stopping": drawn(stopping),
        "ended": drawn(screen_of(over)),
        "side by side": drawn(screen_of(run_of(name="ranking, 70.0%"), meterless, LiveRun("din, 0.0%"))),
        "not enough room": drawn(screen_of(*(run_of(name=f"model_{number}") for number in range(5))), 40),
        "the last words in the room that is left": drawn(talking),
    }
    lines = [line.rstrip() for name, frame in frames.items() for line in (f"== {name}", *frame.splitlines())]
    assert_unchanged("live", "\n".join(lines))


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    screen = screen_of(run_of(*({"second_p99_ms": float(second)} for second in range(100))))
    screen.say("metrics: http://127.0.0.1:9100/metrics and many more words than fit into a line of forty columns")
    lines = drawn(screen, width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) == 13
    newest = next(line for line in lines if line.startswith("p99"))
    assert newest.rstrip().endswith("█") == (width > 36)


def test_colours_are_left_out_where_they_are_not_wanted() -> None:
    assert "32m" in drawn(screen_of(run_of()), terminal=True)
    assert "32m" not in drawn(screen_of(run_of()), terminal=True, NO_COLOR="1")


def test_a_sparkline_ends_with_the_newest_value() -> None:
    assert sparkline([0, 7, 14], 3) == "▁▅█"
    assert sparkline([9, 9, 1, 2], 2) == "▅█"
    assert (sparkline([], 5), sparkline([0, 0], 5)) == ("", "▁▁")


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
        self._read_until(lambda: words in self.written)

    def end(self) -> int:
        """Wait for the end, with the terminal's settings as they were; the exit code."""
        self._read_until(lambda: self.process.poll() is not None)
        self.read()
        assert termios.tcgetattr(self._slave) == self._before
        return self.process.returncode

    def _read_until(self, over: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not over():
            assert time.monotonic() < deadline, self.written
            self.read()
            time.sleep(0.02)


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


def drawing(steps: int) -> list[str]:
    """The program that draws two runs, and goes on for so many steps."""
    return [sys.executable, "-c", DRAWN, str(steps), json.dumps(FIGURES)]


def restored(written: str) -> tuple[str, str]:
    """Return what was written on the one screen of its own, and after it; there the cursor is shown."""
    assert written.count(ENTER) == written.count(LEAVE) == 1
    screen, _, after = written.partition(LEAVE)
    assert SHOW_CURSOR in written[written.rindex("\x1b[?25l") :]
    assert ENTER in screen
    return screen, after


def test_a_view_has_a_screen_of_its_own_and_words_are_kept() -> None:
    with terminal(drawing(40)) as seen:
        seen.until("VALID")
        code = seen.end()
    shown, after = restored(seen.written)
    assert code == 0
    assert "metrics: http://127.0.0.1:9100" in shown
    assert "metrics: http://127.0.0.1:9100" in after
    assert "after" in after
    assert after.count("one is over") == 2
    assert shown.index("first run") < shown.index("second run") < shown.index("ended")


def test_another_width_is_drawn_anew_and_a_signal_leaves_a_clean_terminal() -> None:
    with terminal(drawing(4000), columns=120) as seen:
        seen.until("constraints hold")
        seen.resize(40)
        seen.read()
        seen.written = seen.written[: seen.written.index(ENTER) + len(ENTER)] + "\x1b[?25l"
        seen.until("18.76")
        os.killpg(seen.process.pid, signal.SIGTERM)
        assert seen.end() != 0
    assert "KeyboardInterrupt" in restored(seen.written)[1]


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
    drawn, after = restored(seen.written)
    assert code == 130
    assert "ranking_tiny" in drawn
    assert "in flight" in drawn
    assert "Result is" not in drawn
    assert "Result is" in after
    assert "result: " in after


def test_a_terminal_that_cannot_move_its_cursor_has_no_screen() -> None:
    with terminal(drawing(1), TERM="dumb") as seen:
        seen.end()
    assert ENTER not in seen.written
    assert "no screen" in seen.written


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
    shown, after = restored(re.sub(r"\x1b\[[\d;]*m", "", seen.written))
    assert code in {0, 2}
    assert re.search(r"run +ranking_tiny_onnxruntime, 75.0% +ranking_onnxruntime, 25.0%", shown)
    assert re.search(r"now +measuring, \d of 2 s left +measuring", shown)
    assert "Result is" not in shown
    assert after.count("Result is") == 1
