"""Memory and disk that are used up: words and exit code 3, in each program, and nothing hangs."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from servemark.errors import of_the_system
from servemark.paths import CHECKOUT
from tests.support.command_line import BAD_INPUT, Servemark

RUN = ("-m", "servemark", "run", "ranking_tiny", "--url", "http://127.0.0.1:9")
LOCUST = ("-m", "locust", "-f", "loadgen/ranking.py", "--headless", "--host", "http://127.0.0.1:9")


@pytest.mark.parametrize("program", [RUN, LOCUST], ids=["servemark run", "locust"])
def test_an_address_space_that_is_too_small_is_refused(program: tuple[str, ...]) -> None:
    """OpenBLAS would ask for memory again and again in 300 MiB, at full speed."""
    line = ["bash", "-c", f'ulimit -v {300 << 10}; exec "$@"', "bash", sys.executable, *program]
    done = subprocess.run(line, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (BAD_INPUT, False), done.stderr
    assert "`ulimit -v` leaves 300 MiB of address space" in done.stderr


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/full"), "/tmp/full: No space left on device"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "/home/x"), "/home/x: Disk quota exceeded"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "not enough memory"),
        (MemoryError(), "not enough memory"),
        (ImportError("libx.so: failed to map segment from shared object"), "not enough memory"),
    ],
    ids=["full disk", "quota", "no memory for a process", "no memory", "no memory for a library"],
)
def test_a_command_says_what_is_used_up(
    error: Exception, words: str, servemark: Servemark, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("servemark.results.directory.read", fail)
    done = servemark("show", str(tmp_path))
    assert (done.code, "Traceback" in done.err) == (BAD_INPUT, False), done.err
    assert words in " ".join(done.err.split())


def test_any_other_error_is_not_that() -> None:
    assert of_the_system(OSError(errno.EIO, "Input/output error")) is None
    assert of_the_system(ImportError("no module named x")) is None
