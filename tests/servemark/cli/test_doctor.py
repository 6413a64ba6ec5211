"""`servemark doctor`: what is here, and what is in the way."""

import json
from types import SimpleNamespace

import pytest

from servemark.machine.limits import Cores
from tests.support.command_line import BAD_INPUT, Servemark


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
    assert "engines start 8 threads: --engine-option intra_op_thread_count=4" in said


def test_a_load_generators_machine_is_not_asked_for_what_serves(
    servemark: Servemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that serves or exports is installed there: no such check is made, and none says no."""
    monkeypatch.setattr("servemark.cli.doctor.distribution_of", lambda _: None)
    monkeypatch.setattr("servemark.cli.doctor.serves_here", lambda: False)
    monkeypatch.setattr("servers.find_modes", dict)
    code, out, _ = servemark("doctor", "--generator")
    assert code == 0
    assert out.splitlines()[-1] == "load generator: yes"
    assert "NO" not in out.split()
    found = json.loads(servemark("doctor", "--generator", "--json").out)
    assert found["able"] is True
    names = [check["name"] for check in found["checks"]]
    assert {"cpu", "cpu idle", "send priority", "cpu latency", "disk"} <= set(names)
    assert not [name for name in names if name.startswith(("triton", "engine", "export", "energy", "port"))]
    code, out, _ = servemark("doctor")
    assert code == 0
    assert "load generator: yes; nothing that exports or serves is installed" in out
    monkeypatch.setattr("servemark.cli.doctor.serves_here", lambda: True)
    code, out, _ = servemark("doctor")
    assert code == BAD_INPUT
    assert "as a load generator: servemark doctor --generator" in out


def test_a_full_disk_is_in_a_load_generators_way(servemark: Servemark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1e8))
    code, out, _ = servemark("doctor", "--generator")
    assert code == BAD_INPUT
    assert out.splitlines()[-1] == "load generator: no"
