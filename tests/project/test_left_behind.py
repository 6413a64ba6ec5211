"""A session of tests that leaves processes behind fails, names them and ends them."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from servemark.paths import CHECKOUT

SLEEP = ["/bin/sleep", str(10_000_000 + os.getpid())]
ORPHAN = "subprocess.run(['/bin/sh', '-c', '/bin/sleep {} & echo'], start_new_session=True)"
CHILD = "subprocess.Popen(['/bin/sleep', '{}'])"
FORK = "multiprocessing.get_context('fork').Process(target=time.sleep, args=({},)).start()"
NEAT = "with subprocess.Popen(['/bin/sleep', '{}']) as process: process.kill()"


def session(folder: Path, lines: list[str], flags: list[str]) -> "subprocess.CompletedProcess[str]":
    """Run tests of a line each in a session of their own, which waits briefly for what ends by itself."""
    tests = (f"def test_{number}():\n    {line.format(SLEEP[1])}\n" for number, line in enumerate(lines))
    (folder / "test_it.py").write_text("import multiprocessing, subprocess, time\n" + "".join(tests))
    (folder / "conftest.py").write_text("from tests.support import left_behind\nleft_behind.ENDING_S = 0.5\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.left_behind", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, f"--rootdir={folder}", "-c", os.devnull, *flags, str(folder)],
        cwd=CHECKOUT,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # Locust's takes longer than the session
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.parametrize(
    ("lines", "flags"), [([ORPHAN, CHILD, FORK], []), ([ORPHAN, CHILD], ["-p", "xdist", "-n", "1"])]
)
def test_a_session_fails_that_leaves_a_process_behind(tmp_path: Path, lines: list[str], flags: list[str]) -> None:
    with subprocess.Popen(SLEEP) as of_another_session:
        done = session(tmp_path, lines, flags)
        sleeping = [each.pid for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == SLEEP]
        of_another_session.kill()
    assert sleeping == [of_another_session.pid]
    assert (done.returncode, f"{len(lines)} passed" in done.stdout) == (pytest.ExitCode.TESTS_FAILED, True)
    named = [line for line in done.stdout.partition("left behind")[2].splitlines() if line.startswith("process ")]
    assert len(named) == len(lines)
    assert sum(" ".join(SLEEP) in line for line in named) == 2
    assert all(f"test_{number} (call)" in "".join(named) for number in (0, 1))


def test_a_session_passes_that_leaves_none(tmp_path: Path) -> None:
    """As does every session of these tests themselves, which have several processes."""
    done = session(tmp_path, [NEAT], [])
    assert (done.returncode, "left behind" in done.stdout) == (0, False)
