"""Signals are noted, and raise where code asks."""

import contextlib
import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from servemark import interrupts
from servemark.cli import COMMANDS
from servemark.paths import CHECKOUT


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(interrupts, "_state", interrupts._State())
    before = {number: signal.getsignal(number) for number in interrupts.SIGNALS}
    for number in interrupts.SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    hook = sys.unraisablehook
    interrupts.install()
    yield
    sys.unraisablehook = hook
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_a_signal_raises_at_the_next_line_that_asks(number: signal.Signals) -> None:
    interrupts.check()
    assert not interrupts.requested()
    signal.raise_signal(number)
    assert interrupts.requested()
    with pytest.raises(KeyboardInterrupt) as caught:
        interrupts.check()
    assert interrupts.cut_short_by(caught.value) == f"it was interrupted by {number.name}"
    assert interrupts.cut_short_by(OSError("no space")) == "it ended with OSError: no space"


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts.install()
    signal.raise_signal(signal.SIGHUP)
    assert not interrupts.requested()


def test_waits_end_at_a_signal() -> None:
    start_s = time.monotonic()
    with subprocess.Popen(SLEEP) as child:
        later = subprocess.Popen([sys.executable, "-c", KILL_PARENT])
        with pytest.raises(KeyboardInterrupt):
            interrupts.wait(child)
        with pytest.raises(KeyboardInterrupt):
            interrupts.sleep(60)
        child.kill()
        later.wait()
    assert time.monotonic() - start_s < 30


def test_a_child_is_waited_for() -> None:
    assert interrupts.wait(subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])) == 1
    with subprocess.Popen(SLEEP) as child:
        with pytest.raises(subprocess.TimeoutExpired):
            interrupts.wait(child, 0.1)
        child.kill()


def test_in_the_code_of_others_a_signal_raises_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts.anywhere():
        _raise_and_fail()


def test_two_that_python_sees_as_one_raise_where_the_first_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may give this process no turn until RAISE_S after the first signal: Python sees none before."""
    monkeypatch.setattr(interrupts._state, "overdue", True)
    with pytest.raises(KeyboardInterrupt):
        _raise_and_fail()


def _raise_and_fail() -> None:
    signal.raise_signal(signal.SIGINT)
    pytest.fail("it went on")


def test_one_that_a_callback_loses_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    class Loses:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), interrupts.anywhere():
        Loses()
    assert capsys.readouterr().err == ""


def test_a_child_that_starts_holds_a_signal_back_until_it_lets_it_through() -> None:
    code = "import signal, sys; sys.stdin.readline(); from servemark import interrupts; interrupts.install();"
    code += "sys.exit(7 if interrupts.requested() else 0)"
    with interrupts.held_back():
        child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, cwd=CHECKOUT)
    child.send_signal(signal.SIGINT)
    child.communicate(b"\n")
    assert child.returncode == 7
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_one_that_others_code_loses_is_raised_after_it() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts.anywhere(), contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_in_what_is_finished_nothing_is_raised() -> None:
    with interrupts.anywhere(), interrupts.finishing():
        signal.raise_signal(signal.SIGHUP)
        assert interrupts._state.noted_s is not None
        interrupts._state.noted_s = None


SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
KILL_PARENT = "import os, signal, time; time.sleep(0.3); os.kill(os.getppid(), signal.SIGTERM)"
PROGRAM = """
import contextlib, signal, sys, time
from servemark import interrupts
interrupts.install()
interrupts._state.owned = sys.argv[1] == "owned"
block = interrupts.finishing if sys.argv[1] == "finishing" else contextlib.nullcontext
with block():
    first, second = sys.argv[2].split(", ")
    signal.raise_signal(getattr(signal, first))
    time.sleep(float(sys.argv[3]))
    signal.raise_signal(getattr(signal, second))
    print("written", flush=True)
print("went on", flush=True)
"""


@pytest.mark.parametrize(
    ("block", "signals", "after_s", "said", "code"),
    [
        ("any", "SIGINT, SIGINT", 1.1, "", 130),
        ("any", "SIGTERM, SIGTERM", 1.1, "", 130),
        ("any", "SIGTERM, SIGINT", 1.1, "", 130),
        ("finishing", "SIGINT, SIGINT", 1.1, "written\n", 130),
        ("finishing", "SIGTERM, SIGTERM", 1.1, "written\n", 130),
        ("any", "SIGINT, SIGINT", 0.02, "written\nwent on\n", 0),
        ("any", "SIGINT, SIGTERM", 1.1, "written\nwent on\n", 0),
        ("owned", "SIGTERM, SIGTERM", 1.1, "written\nwent on\n", 0),
        ("owned", "SIGINT, SIGINT", 1.1, "", 130),
    ],
)
def test_a_second_signal(block: str, signals: str, after_s: float, said: str, code: int) -> None:
    """It ends the process at once; it is none where it bounces, or where an owner passes on what both got."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, block, signals, str(after_s)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == (said, code)


LONG = {
    "a loop": "while True: sum(range(1000))",
    "a loop that loses every exception": """while True:
    with contextlib.suppress(BaseException):
        sum(range(1000))""",
    "C code": "hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)",
    "a pipe": "os.mkfifo(sys.argv[1]); open(sys.argv[1])",
    "what is written": """with interrupts.finishing():
    while True:
        time.sleep(0.1)""",
}
"""Work that asks nothing of signals."""
COMMAND = """
import contextlib, hashlib, os, sys, time
from servemark import __main__, cli, interrupts
interrupts.RAISE_S, interrupts.END_S = 0.2, 1.0

def work(*_, **__):
    print("begun", flush=True)
    exec(sys.argv[2])

cli.build = lambda: work
__main__.main()
"""


@pytest.mark.parametrize(("work", "number"), [*zip(LONG, itertools.cycle([signal.SIGTERM, signal.SIGHUP]))])
def test_a_signal_ends_a_command_whatever_it_does(work: str, number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", COMMAND, str(tmp_path / "pipe"), LONG[work]]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        try:
            assert process.wait(30) == interrupts.EXIT_CODE
        finally:
            process.kill()


COMMANDS_THAT_HANG = """
import gc, os, signal, sys, time
from servemark import __main__, cli, interrupts
interrupts.RAISE_S = 0.05

def hang(*_, **__):
    os.write(writing, b".")
    time.sleep(60)

group = cli.build()
cli.build = lambda: group
for name, command in group.commands.items():
    command.invoke, command.parse_args = hang, lambda *_: []
gc.collect()
gc.freeze()  # a child that ends does not look through all that was imported
for name in group.commands:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        sys.argv = ["servemark", name]
        __main__.main()
    os.close(writing)
    assert os.read(reading, 1), f"{name} ended before it hung"
    os.kill(child, signal.SIGTERM)
    print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_a_sigterm_ends_every_command() -> None:
    """Each of the registry, in a fork that does not import anew, while it waits and asks nothing."""
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS_THAT_HANG],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=150,  # more than twenty forks one after another, on a machine that may be doing other things
        check=False,
    )
    assert done.stdout.splitlines() == [f"{name} {interrupts.EXIT_CODE}" for name in COMMANDS], done.stderr
