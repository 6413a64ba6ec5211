"""`servemark doctor`: what is here, and what is in the way."""

import json

import pytest

from servemark.machine.limits import Cores
from tests.support.command_line import BAD_INPUT, Servemark


@pytest.mark.parametrize("command", ["list", "doctor"])
def test_json_is_one_document(command: str, servemark: Servemark) -> None:
    done = servemark(command, "--json")
    assert done.code in {0, BAD_INPUT}
    assert json.loads(done.out)


@pytest.mark.parametrize(("percent", "ok"), [(3.0, True), (96.0, False)])
def test_doctor_tells_a_busy_machine(
    percent: float, ok: bool, servemark: Servemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.cpu_percent", lambda _interval: percent)
    [check] = [c for c in json.loads(servemark("doctor", "--json").out)["checks"] if c["name"] == "cpu idle"]
    assert check["ok"] is ok
    assert check["detail"].startswith(f"{percent:.0f}% of the CPU is in use")


def test_doctor_says_what_a_quota_does(servemark: Servemark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servemark.machine.limits.cores", lambda: Cores(16, 8, 3.5))
    said = servemark("doctor", "--json").out
    assert "4 of 16 cores (a quota of 3.5)" in said
    assert "engines start 8 threads: --option intra_op_thread_count=4" in said
