"""Documents of every kind, made once."""

import pytest

from servemark.results.saved import Saved
from tests.support.saved_documents import documents


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Saved]:
    """For reading only."""
    return documents(tmp_path_factory.mktemp("documents"))
