"""A plugin of pytest: a session fails that leaves processes behind; they are named and ended.

Every process that runs tests puts a mark into its environment, and all that it starts inherits the mark. So those are
found too whose parent has ended, and those of another session that runs meanwhile are not.
"""

import contextlib
import os
import time
import uuid
from pathlib import Path

import psutil
import pytest

MARK = "SERVEMARK_TEST_SESSION"
SESSION = f"{os.environ.get(MARK, '')}/{uuid.uuid4().hex}"
"""Below the mark of what started this process: a controller finds what its workers have started."""
ENDING_S = 10.0
"""Time for a process that ends by itself because its parent has, like a guard and its server."""

os.environ[MARK] = SESSION


@pytest.hookimpl(trylast=True)  # fixtures are torn down, and the workers have ended
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where something that the session started is still there. A worker leaves that to its controller."""
    if hasattr(session.config, "workerinput"):
        return
    deadline = time.monotonic() + ENDING_S
    while (left := left_behind()) and time.monotonic() < deadline:
        psutil.wait_procs(left, timeout=0.1)
    if not left:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    reporter.section("left behind", red=True)
    for process in left:
        reporter.write_line(_described(process), red=True)
    _end(left)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


def left_behind() -> list[psutil.Process]:
    """Return the processes that this one started, or what those started, and that still run."""
    own = {
        each.pid for each in psutil.Process().children(recursive=True)
    }  # a fork shows its parent's first environment
    found = [each for each in psutil.process_iter() if each.pid in own or _mark(each.pid).startswith(SESSION)]
    return [each for each in found if _runs(each)]


def _mark(pid: int) -> str:
    return _environment(pid).get(MARK, "")


def _environment(pid: int) -> dict[str, str]:
    """Return what a process was started with; nothing where it has ended, or is another user's."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
        return dict(line.partition("=")[::2] for line in lines)
    return {}


def _runs(process: psutil.Process) -> bool:
    """Return True unless it has ended, or is a helper of this Python that ends with it."""
    try:
        helper = process.ppid() == os.getpid() and "from multiprocessing." in " ".join(process.cmdline())
        return not helper and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _described(process: psutil.Process) -> str:
    """Return its number and command line, and the test that started it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        test = _environment(process.pid).get("PYTEST_CURRENT_TEST", "a fixture, or not known")
        return f"process {process.pid}: {' '.join(process.cmdline())} (parent {process.ppid()}; started by {test})"
    return f"process {process.pid}, which has ended meanwhile"


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(processes, timeout=5)
    for process in stubborn:
        process.kill()
    psutil.wait_procs(stubborn, timeout=5)
