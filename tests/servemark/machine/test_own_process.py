"""A process of cases: answers, errors, and going on after a crash or a hang."""

import os
import signal
import time

import pytest

from servemark.machine.own_process import Ended, OwnProcess


def own_id(number: int) -> tuple[int, int]:
    return number, os.getpid()


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(60)


def fail() -> None:
    raise ValueError("no")


def test_a_crash_and_a_hang_cost_one_case() -> None:
    with OwnProcess() as process:
        first, second = (process.run(own_id, number, timeout_s=60) for number in (1, 2))
        assert (first[0], second[0]) == (1, 2)
        assert first[1] == second[1] != os.getpid()
        with pytest.raises(ValueError, match="no"):
            process.run(fail, timeout_s=60)
        with pytest.raises(Ended, match="was killed"):
            process.run(crash, timeout_s=60)
        third = process.run(own_id, 3, timeout_s=60)
        assert third[1] != first[1]
        with pytest.raises(Ended, match=r"not done within 0\.1 s"):
            process.run(hang, timeout_s=0.1)
        assert process.run(own_id, 4, timeout_s=60)[0] == 4
    with pytest.raises(ProcessLookupError):
        os.kill(third[1], 0)
