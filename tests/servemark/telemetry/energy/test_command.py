"""A meter of the user's: lines of watts, and everything that is none."""

import os
import shlex
import signal
import sys
from pathlib import Path

import psutil
import pytest

from servemark.errors import OptionError
from servemark.telemetry.energy import command as commands
from servemark.telemetry.energy.command import Lines, PowerCommand
from servemark.telemetry.energy.meter import UnavailableError
from tests.support.locust_run import until

S = 1_000_000_000


def lines(*came: tuple[float, bytes]) -> Lines:
    """Pieces of output and when each came (s)."""
    times = iter([])  # type: ignore[var-annotated]
    found = Lines(clock_ns=lambda: next(times))
    for second, data in came:
        times = iter([round(second * S)] * 100)
        found.take(data)
    return found


def test_a_line_is_a_figure() -> None:
    found = lines((1, b"100\n2"), (2, b"00.5\n 3e2 \n"))
    assert (found.watts, found.times_ns) == ([100, 200.5, 300], [S, 2 * S, 2 * S])
    assert found.read() == (300,)


def test_other_lines_are_counted() -> None:
    found = lines((1, b"Power (W)\n\n100\n-5\nnan\n1e999\n\xff\n100 W\n"))
    assert (found.watts, found.garbage, found.first_garbage) == ([100], 6, "Power (W)")


def test_no_figure_at_all_has_a_reason() -> None:
    with pytest.raises(UnavailableError, match=r"^the power command wrote no figure$"):
        lines().read()
    with pytest.raises(UnavailableError, match=r"no figure: 2 lines are none, the first 'usage: meter'"):
        lines((1, b"usage: meter\n  -w\n")).read()


def test_a_line_without_an_end_is_bounded() -> None:
    found = lines((1, b"1" * 70_000), (2, b"\n5\n"))
    assert (found.garbage, found.watts) == (1, [5])


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ([each / 5 for each in range(21)], None),
        ([0.5, 1.5, 2.5, 3.5], "wrote 4 figures within 4 s, 20 are needed: measure for 20 s, or have it write more"),
        ([-1, 4.5], "wrote 0 figures within 4 s, 20 are needed: measure longer"),
        ([each / 50 for each in range(21)], "wrote nothing for 3.6 s, usually every 0.02 s"),
        ([*(each / 50 for each in range(20)), 3.8, 3.82], "wrote nothing for 3.42 s"),
    ],
)
def test_a_window_needs_figures_all_through(seconds: list[float], words: str | None) -> None:
    found = lines(*((second, b"50\n") for second in seconds)).check(0, 4 * S)
    assert found is None if words is None else words in str(found)


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


WATTS = "import time\nwhile True: print(42, flush=True); time.sleep(0.01)"


def test_a_command_is_a_meter_until_it_is_closed() -> None:
    command = PowerCommand(python(WATTS), "wall")
    try:
        assert command.wait_for_first() is None
        command.meter.start()
        until(lambda: len(command.lines.times_ns) >= 40, "many lines")
        assert command.meter.read() == (42,)
        reading = command.meter.stop()
    finally:
        command.close()
    assert (reading.source, reading.boundary) == ("power_command", "wall")
    assert reading.average_w == pytest.approx(42) or "wrote nothing for" in str(reading.reason)  # a busy machine
    assert command._process.returncode == -signal.SIGTERM


@pytest.mark.parametrize("its_own", ["", "trap - TERM\n"], ids=["it ignores SIGTERM too", "it does not ignore SIGTERM"])
def test_what_a_command_has_started_ends_with_it(tmp_path: Path, its_own: str) -> None:
    script = tmp_path / "meter.sh"
    script.write_text(f"trap '' TERM\nsleep 1000 & echo $! > {tmp_path}/pid\n{its_own}echo 5\nwait\nwait\n")
    command = PowerCommand(f"sh {script}", "wall")
    assert command.wait_for_first() is None
    child = int((tmp_path / "pid").read_text())
    command.close()
    until(lambda: not psutil.pid_exists(child), "its end")


def test_no_shell_reads_it(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:], file=sys.stderr); print(7, flush=True); sys.stdin.read()"
    command = PowerCommand(f"{python(code)} $HOME '; touch {tmp_path}/x' *", "wall")
    assert command.wait_for_first() is None
    command.close()
    assert not (tmp_path / "x").exists()


def test_a_command_that_ends_says_its_last_words() -> None:
    command = PowerCommand(python("import sys; print(5, flush=True); sys.exit('no such device /dev/ttyUSB0')"), "wall")
    assert command.wait_for_first() is None
    until(lambda: command.lines.ended is not None, "its end")
    with pytest.raises(UnavailableError, match=r"ended during the run: no such device /dev/ttyUSB0"):
        command.meter.read()
    command.close()


def test_a_command_that_says_nothing_is_no_meter_and_one_of_another_user_does_not_end_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(commands, "FIRST_LINE_S", 0.2)
    command = PowerCommand("sleep 100", "wall")
    assert command.wait_for_first() == "the power command wrote no figure within 0.2 s"
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", refuse)
        command.close()
    assert command._said.closed
    command._process.kill()
    command._process.wait()


@pytest.mark.parametrize(
    ("text", "words"),
    [("/no/such/meter -w", "No such file"), ("meter 'open", "No closing quotation"), ("  ", "is empty")],
)
def test_what_is_no_command_is_an_error(text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        PowerCommand(text, "wall")
