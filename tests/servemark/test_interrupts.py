"""Signals are noted, and raise where code asks."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from servemark import interrupts
from servemark.paths import CHECKOUT


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(interrupts, "_state", interrupts._State())
    before = {number: signal.getsignal(number) for number in interrupts.SIGNALS}
    for number in interrupts.SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    interrupts.install()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_a_signal_raises_at_the_next_line_that_asks(number: signal.Signals) -> None:
    interrupts.check()
    assert not interrupts.requested()
    signal.raise_signal(number)
    assert interrupts.requested()
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()


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


def _raise_and_fail() -> None:
    signal.raise_signal(signal.SIGINT)
    pytest.fail("it went on")


def test_one_that_others_code_loses_is_raised_after_it() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts.anywhere(), contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_in_what_is_finished_nothing_is_raised() -> None:
    with interrupts.anywhere(), interrupts.finishing():
        signal.raise_signal(signal.SIGHUP)
        interrupts._state.noted_s = None


SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
KILL_PARENT = "import os, signal, time; time.sleep(0.3); os.kill(os.getppid(), signal.SIGTERM)"
PROGRAM = """
import contextlib, signal, sys, time
from servemark import interrupts
interrupts.install()
block = interrupts.finishing if sys.argv[1] == "finishing" else contextlib.nullcontext
with block():
    signal.raise_signal(signal.SIGINT)
    time.sleep(float(sys.argv[3]))
    signal.raise_signal(getattr(signal, sys.argv[2]))
    print("written", flush=True)
print("went on", flush=True)
"""


@pytest.mark.parametrize(
    ("block", "second", "after_s", "said", "code"),
    [
        ("any", "SIGINT", 1.1, "", 130),
        ("finishing", "SIGINT", 1.1, "written\n", 130),
        ("any", "SIGINT", 0.02, "written\nwent on\n", 0),
        ("any", "SIGTERM", 1.1, "written\nwent on\n", 0),
    ],
    ids=["ends at once", "finishes what is written", "a bounce", "what a parent passes on"],
)
def test_a_second_signal(block: str, second: str, after_s: float, said: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, block, second, str(after_s)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == (said, code)
