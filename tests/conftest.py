"""What holds for every test."""

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.exporting import Exports


def pytest_configure(config: pytest.Config) -> None:  # noqa: ARG001 - pytest's interface
    """Take Ctrl-C also in a shell's background, where it is ignored and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> "Exports":
    """Exports each workload once for all tests."""
    from tests.exporting import Exports  # torch takes seconds to import

    return Exports(tmp_path_factory.mktemp("exported"))
