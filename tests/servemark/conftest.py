"""Requests of runs that commands would make, and documents of every kind."""

import pytest

from servemark.documents.request import RunRequest
from servemark.errors import OptionError
from servemark.results.saved import Saved


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


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Saved]:
    """A document of every kind, for reading only."""
    from tests.support.saved_documents import documents

    return documents(tmp_path_factory.mktemp("documents"))
