"""servemark's commands, run in this process."""

import signal
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from servemark import interrupts
from servemark.cli import main

BAD_INPUT = 3


class Done(NamedTuple):
    """Outcome of a command: its exit code and its output."""

    code: int
    out: str
    err: str


Servemark = Callable[..., Done]


def run_here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str) -> Done:
    """Run a command, which takes the signals for itself; they are given back."""
    before = {number: signal.getsignal(number) for number in interrupts.SIGNALS}
    monkeypatch.setattr(sys, "argv", ["servemark", *arguments])
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert isinstance(ended.value.code, int)
    return Done(ended.value.code, *capfd.readouterr())
