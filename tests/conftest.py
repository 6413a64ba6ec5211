"""What holds for every test."""

import signal

import pytest


def pytest_configure(config: pytest.Config) -> None:  # noqa: ARG001 - pytest's interface
    """Take Ctrl-C also in a shell's background, where it is ignored and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
