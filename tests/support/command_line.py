"""servemark's commands, run in this process."""

import signal
import sys

import pytest

from servemark.cli import main

BAD_INPUT = 3


def servemark(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run a command and return its exit code; it takes SIGTERM for itself, which is given back."""
    previous = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(sys, "argv", ["servemark", *arguments])
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert isinstance(ended.value.code, int)
    return ended.value.code
