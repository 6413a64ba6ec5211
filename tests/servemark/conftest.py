"""Fixtures for tests of commands and of the requests that they make."""

import pytest

from servemark.documents.request import RunRequest
from servemark.errors import OptionError


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """The requests of the runs that commands would make, which go no further."""
    found: list[RunRequest] = []

    def stop(request: RunRequest) -> None:
        found.append(request)
        raise OptionError("not run")

    for command in ("run", "explain"):
        monkeypatch.setattr(f"servemark.cli.{command}.resolved", stop)
    return found
