"""Locust without its patches: whatever else runs in a test's process needs threads and sockets as they are."""

from collections.abc import Iterator

import pytest

from servemark.calibration.golden import server
from servemark.runs import locust_process
from tests.loadgen.forked import GENERATOR, GOLDEN, SOURCES, forking
from tests.support import locust_run

with pytest.MonkeyPatch.context() as patch:
    patch.setenv("LOCUST_SKIP_MONKEY_PATCH", "1")
    import locust  # noqa: F401 - before the modules under test import it


@pytest.fixture(scope="session", autouse=True)
def _no_source_is_left_behind() -> Iterator[None]:
    yield
    for source in SOURCES:
        source.end()


@pytest.fixture(scope="module", autouse=True)
def _golden_servers_and_load_generators_are_forks() -> Iterator[None]:
    """Save each the seconds of its imports. What starts a process itself starts the real one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "subprocess", forking(GOLDEN))
        for module in (locust_run, locust_process):
            patch.setattr(module, "subprocess", forking(GENERATOR))
        yield
