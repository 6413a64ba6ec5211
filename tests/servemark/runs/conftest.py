"""The digits of the tests that score answers, a server that knows them, and commands that score what it answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden.server import GoldenServer
from tests.support.command_line import Servemark
from tests.support.digits import Scoring, lay_out, served


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def running(data: Path) -> Iterator[GoldenServer]:
    with served(data) as found:
        yield found


@pytest.fixture
def server(running: GoldenServer) -> GoldenServer:
    """A server that knows three quarters of the digits, and has no request in its log."""
    running.reset()
    return running


@pytest.fixture
def scoring(servemark: Servemark, data: Path, tmp_path: Path, server: GoldenServer) -> Scoring:
    return Scoring(servemark, data, tmp_path, server)
