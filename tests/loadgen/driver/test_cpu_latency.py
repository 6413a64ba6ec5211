"""When cores are kept out of idle states, and what the result says of it."""

from pathlib import Path

import psutil
import pytest

from loadgen.driver import cpu_latency as module
from loadgen.driver.cpu_latency import CpuLatency
from servemark.errors import OptionError
from servemark.machine import idle_states

HELD = {"cpu_latency_us": 0}


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A kernel's device that takes what is written; nothing here has RAPL."""
    path = tmp_path / "cpu_dma_latency"
    path.touch()
    monkeypatch.setattr(module, "hold_awake", lambda: idle_states.hold_awake(path))
    monkeypatch.setattr(module, "refusal", lambda: idle_states.refusal(path))
    monkeypatch.setattr(module, "_has_rapl", lambda: False)
    monkeypatch.setattr(module, "virtual_machine", lambda: "a vendor")
    return path


def asked(value: str = "auto", *, power_command: bool = False) -> CpuLatency:
    return CpuLatency(value, power_command=power_command)


def is_held(device: Path) -> bool:
    return any(file.path == str(device) for file in psutil.Process().open_files())


def test_it_holds_while_requests_are_sent(device: Path) -> None:
    with asked() as latency:
        assert is_held(device)
        assert latency.figures == HELD
    assert not is_held(device)
    assert latency.figures == HELD


@pytest.mark.parametrize(
    ("value", "settings", "why"),
    [
        ("auto", {"power_command": True}, "metered"),
        ("off", {}, "--cpu-latency-qos off"),
    ],
)
def test_it_is_left_alone(device: Path, value: str, settings: dict[str, bool], why: str) -> None:
    with asked(value, **settings) as latency:
        assert not is_held(device)
    assert latency.figures["cpu_latency_us"] is None
    assert why in latency.figures["cpu_latency_us_reason"]


def test_where_rapl_counts_the_cores_energy_they_idle(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_has_rapl", lambda: True)
    with asked() as latency:
        assert not is_held(device)
        assert "metered" in latency.figures["cpu_latency_us_reason"]
    with asked("on"):
        assert is_held(device)


def test_on_bare_metal_the_clocks_come_first(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "virtual_machine", lambda: None)
    with asked() as latency:
        assert not is_held(device)
        assert "no virtual machine" in latency.figures["cpu_latency_us_reason"]
    with asked("on"):
        assert is_held(device)


def test_a_kernel_that_refuses_is_told_and_stops_only_who_insists(device: Path) -> None:
    device.unlink()
    with asked() as latency:
        assert latency.figures["cpu_latency_us"] is None
        assert "No such file" in latency.figures["cpu_latency_us_reason"]
    asked().require()
    with pytest.raises(OptionError, match=r"--cpu-latency-qos on: .*No such file"):
        asked("on").require()
