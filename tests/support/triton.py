"""Tests against a real Triton: where there is one, with its logs out of the way, started anew where it crashed."""

import contextlib
import functools
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from servemark.errors import ServerError
from servemark.paths import CHECKOUT
from servers import Server, open_server
from servers.modes import embedded

START_S = 90.0
EXIT_S = 5
"""A Triton that dies prints its stack first."""
IDENTITY = CHECKOUT / "benchmarks" / "rig" / "model_repo" / "identity"
IDENTITY_LOCUSTFILE = CHECKOUT / "benchmarks" / "rig" / "identity_locustfile.py"

needs_triton = pytest.mark.skipif(embedded.missing() is not None, reason=f"{embedded.missing()}")
triton_only = [needs_triton, pytest.mark.usefixtures("own_logs")]
"""A module's `pytestmark`."""


def copy_identity(repository: Path, name: str = "identity") -> str:
    """Put the benchmarks' model that answers what it is asked into a repository; returns its name."""
    shutil.copytree(IDENTITY, repository / name, ignore=shutil.ignore_patterns("__pycache__"))
    config = repository / name / "config.pbtxt"
    config.write_text(config.read_text().replace('"identity"', f'"{name}"'))
    return name


class LastingTriton:
    """An embedded Triton for all tests of a module; one that has crashed is followed by a new one."""

    def __init__(self, repository: Path, models: Sequence[str]) -> None:
        self._repository, self._models = repository, models
        self._stack = contextlib.ExitStack()
        self._server: Server | None = None

    def server(self) -> Server:
        """The server, alive when this returns."""
        if self._server is None or self.crash():
            self._stack.close()
            self._server = self._stack.enter_context(open_server("embedded", self._repository, self._models))
        return self._server

    def crash(self, within_s: float = 0) -> str:
        """Return the reason of the server's end; empty if it lives on for `within_s`."""
        end = time.monotonic() + within_s
        while self._server:
            try:
                self._server.check()
            except ServerError as error:
                return str(error)
            if time.monotonic() >= end:
                break
            time.sleep(0.05)
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def again_after_a_crash(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test of load a second time where Triton crashed in the first. It takes the fixture `triton`.

    Triton 2.51, the wheel's newest, was seen to die twice of SIGSEGV in its Python backend (SaveRequestsToSharedMemory)
    under gRPC streams on a busy machine, once in about a million requests. What our own bytes did would happen again.
    """

    @functools.wraps(test)
    def run(*, triton: LastingTriton, **others: Any) -> None:
        try:
            return test(triton=triton, **others)
        except AssertionError:
            if not (crash := triton.crash(EXIT_S)):
                raise
        warnings.warn(f"Triton crashed, the test is run again: {crash}", stacklevel=1)
        return test(triton=triton, **others)

    return run
