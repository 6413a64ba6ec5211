"""Fixtures and settings for every test."""

import contextlib
import functools
import gc
import os
import signal
import zlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from servemark.frameworks import tensorflow as quiet_tensorflow
from servemark.output import NOTES, SAYS
from tests.support.certificates import Authority
from tests.support.left_behind import pytest_sessionfinish  # noqa: F401 - pytest finds its hooks here

if TYPE_CHECKING:
    from tests.support.command_line import Servemark
    from tests.support.exporting import Exports

SLOW_TIMEOUT_S = 900
EXPORT_TIMEOUT_S = 600
"""On a busy machine the largest network of the tests takes three minutes, and another process may be making it."""
LONGEST = "tests/exporters/pipeline/test_parity.py"
"""It takes a process minutes: at the end all others would wait for it."""

os.environ.setdefault(SAYS, NOTES)  # as a command does: tests of the library look at its notes too
os.environ.pop("SERVEMARK_HOME", None)  # tests look for what commands write where these write it by default
os.environ["SERVEMARK_MODELS"] = "/dev/null/models"  # the models that this checkout's user has imported are not tested
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the processes that run tests share the cores: more threads would wait

# No deadline: a busy machine is slow, not wrong.
settings.register_profile("ci", derandomize=True, database=None, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_configure(config: pytest.Config) -> None:  # noqa: ARG001 - pytest's interface
    """Let children take Ctrl-C and a hangup, which a shell's background and nohup ignore and children inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    gc.disable()  # until all is imported


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give full-size models and exports the minutes that they take, and mix the files that several processes share."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))
        elif "exported" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(EXPORT_TIMEOUT_S))
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: _turn(item.nodeid.partition("::")[0]))


def _turn(file: str) -> tuple[bool, int]:
    """Put the longest file before all others, and these into an order that has those that wait between the rest."""
    return file != LONGEST, zlib.crc32(file.encode())


def pytest_collection_finish() -> None:
    """Keep what is there to stay, modules and ten thousand tests, out of every collection of garbage."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> "Exports":
    """Exports each workload once for all tests, also where several processes run them."""
    from tests.support.exporting import Exports  # torch takes seconds to import

    base = tmp_path_factory.getbasetemp()
    return Exports((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "exported")


@pytest.fixture
def servemark(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> "Servemark":
    """Runs a command in this process and returns its exit code, stdout and stderr."""
    from tests.support.command_line import run_here

    return functools.partial(run_here, monkeypatch, capfd)


@pytest.fixture(scope="module")
def own_logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the logs of the servers that fail on purpose out of the machine's /tmp."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("logs")))
        patch.setattr("tempfile.tempdir", None)
        yield


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A CA, for tests over TLS."""
    return Authority(tmp_path_factory.mktemp("tls") / "ca").make()


@pytest.fixture(scope="session")
def certificate(authority: Authority) -> str:
    """A PEM file with a server's certificate and key, which the CA has signed."""
    return str(authority.issue("server"))


def _one_thread(import_tensorflow: Callable[[], ModuleType]) -> Callable[[], ModuleType]:
    """Give TensorFlow the one thread that tests ask for before anything starts it: it takes a number only once."""

    @functools.cache
    def imported() -> ModuleType:
        tensorflow = import_tensorflow()
        with contextlib.suppress(RuntimeError):  # a test has started it without this
            tensorflow.config.threading.set_intra_op_parallelism_threads(1)
        return tensorflow

    return imported


quiet_tensorflow.import_tensorflow = _one_thread(quiet_tensorflow.import_tensorflow)
