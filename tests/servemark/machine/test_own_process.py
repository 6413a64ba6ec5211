"""A process of cases: answers, errors, and going on after a crash or a hang."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servemark.machine.own_process import UNGUARDED, Ended, OwnProcess


def own_id(number: int) -> tuple[int, int]:
    return number, os.getpid()


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(60)


def fail() -> None:
    raise ValueError("no")


class Odd(Exception):  # noqa: N818 - as engines name theirs
    """An engine's own error, which shares no base with others and cannot be read back from its words."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(f"{code}: {why}")


def fail_oddly() -> None:
    raise Odd(3, "no such kernel")


def wait_for_a_file() -> None:
    raise TimeoutError("the file's server does not answer")


def test_a_crash_and_a_hang_cost_one_case() -> None:
    with OwnProcess() as process:
        first, second = (process.run(own_id, number, timeout_s=60) for number in (1, 2))
        assert (first[0], second[0]) == (1, 2)
        assert first[1] == second[1] != os.getpid()
        with pytest.raises(ValueError, match="no"):
            process.run(fail, timeout_s=60)
        with pytest.raises(RuntimeError, match="Odd: 3: no such kernel"):
            process.run(fail_oddly, timeout_s=60)
        with pytest.raises(TimeoutError, match="the file's server"):
            process.run(wait_for_a_file)
        with pytest.raises(Ended, match="was killed"):
            process.run(crash, timeout_s=60)
        third = process.run(own_id, 3, timeout_s=60)
        assert third[1] != first[1]
        with pytest.raises(Ended, match=r"not done within 0\.1 s"):
            process.run(hang, timeout_s=0.1)
        assert process.run(own_id, 4, timeout_s=60)[0] == 4
    with pytest.raises(ProcessLookupError):
        os.kill(third[1], 0)


def test_a_script_without_a_guard_is_told_so_in_one_line(tmp_path: Path) -> None:
    """The new process runs the script again, which then starts a process itself."""
    script = tmp_path / "script.py"
    script.write_text(
        "from servemark.machine.own_process import Ended, OwnProcess\n"
        "with OwnProcess() as process:\n"
        "    try:\n"
        "        process.run(abs, -1)\n"
        "    except Ended as ended:\n"
        "        print(ended)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{UNGUARDED}\n"
    assert done.stderr == ""
