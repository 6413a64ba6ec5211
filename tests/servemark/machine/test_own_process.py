"""A process of cases: answers, errors, and going on after a crash or a hang."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servemark.machine.own_process import UNGUARDED, Ended, OwnProcess


def fail(error: Exception) -> None:
    raise error


class Odd(Exception):  # noqa: N818 - as engines name theirs
    """An engine's own error, which shares no base with others and cannot be read back from its words."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(f"{code}: {why}")


def fail_oddly() -> None:
    raise Odd(3, "no such kernel")


def test_a_crash_and_a_hang_cost_one_case() -> None:
    with OwnProcess() as process:
        first, second = (process.run(os.getpid, timeout_s=60) for _ in range(2))
        assert first == second != os.getpid()
        with pytest.raises(ValueError, match="no"):
            process.run(fail, ValueError("no"), timeout_s=60)
        with pytest.raises(RuntimeError, match="Odd: 3: no such kernel"):
            process.run(fail_oddly, timeout_s=60)
        with pytest.raises(TimeoutError, match="the file's server"):
            process.run(fail, TimeoutError("the file's server does not answer"))
        with pytest.raises(Ended, match="was killed"):
            process.run(signal.raise_signal, signal.SIGKILL, timeout_s=60)
        third = process.run(os.getpid, timeout_s=60)
        assert third != first
        with pytest.raises(Ended, match=r"not done within 0\.1 s"):
            process.run(time.sleep, 60, timeout_s=0.1)
        assert process.run(abs, -4, timeout_s=60) == 4
    with pytest.raises(ProcessLookupError):
        os.kill(third, 0)


def test_a_script_without_a_guard_is_told_so_in_one_line(tmp_path: Path) -> None:
    """The new process runs the script again, which then starts a process itself."""
    script = tmp_path / "script.py"
    script.write_text("""from servemark.machine.own_process import Ended, OwnProcess
with OwnProcess() as process:
    try:
        process.run(abs, -1)
    except Ended as ended:
        print(ended)
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == (f"{UNGUARDED}\n", "")
