"""Calls that product code makes in processes of their own, made in this one: each of those would import torch anew."""

from collections.abc import Callable
from typing import Any

import pytest

from servemark.machine.own_process import OwnProcess


def call_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `OwnProcess.run`, and `apart` with it, call in this process."""

    def run(_: object, call: Callable[..., Any], *arguments: object, timeout_s: float) -> Any:  # noqa: ARG001
        return call(*arguments)

    monkeypatch.setattr(OwnProcess, "run", run)
