"""When cores are kept out of idle states, and what the result says of it."""

from pathlib import Path
from typing import cast

import psutil
import pytest

from loadgen.driver import cpu_latency as module
from loadgen.driver.cpu_latency import CpuLatency
from loadgen.sut.target import Target
from servemark.errors import OptionError
from servemark.figures.value import Value
from servemark.machine import idle_states

HELD = Value(0)


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


class Server:
    """A target that is on another machine, here, or nobody knows where."""

    def __init__(self, place: str) -> None:
        self.local, self._place = place == "in this process", place

    def processes(self) -> list[int]:
        if self._place == "a container":
            raise LookupError(self._place)
        return [7] if self._place == "this machine" else []


def asked(value: str = "auto", server: str = "elsewhere", *, power_command: bool = False) -> CpuLatency:
    latency = CpuLatency(value, power_command=power_command)
    latency.require(cast(Target, Server(server)))
    return latency


def is_held(device: Path) -> bool:
    return any(file.path == str(device) for file in psutil.Process().open_files())


def test_it_holds_while_requests_are_sent(device: Path) -> None:
    with asked() as latency:
        assert is_held(device)
        assert latency.figure == HELD
    assert not is_held(device)
    assert latency.figure == HELD


@pytest.mark.parametrize("server", ["this machine", "in this process", "a container"])
def test_what_is_measured_is_not_changed_unless_asked(device: Path, server: str) -> None:
    with asked("auto", server) as latency:
        assert not is_held(device)
        assert "the server is on this machine, or it is not known" in str(latency.figure.reason)
    with asked("on", server):
        assert is_held(device)


@pytest.mark.parametrize(
    ("value", "power_command", "why"), [("auto", True, "metered"), ("off", False, "--cpu-latency-qos off")]
)
def test_it_is_left_alone(device: Path, value: str, power_command: bool, why: str) -> None:
    with asked(value, power_command=power_command) as latency:
        assert not is_held(device)
    assert latency.figure.value is None
    assert why in str(latency.figure.reason)


@pytest.mark.parametrize(
    ("detected", "found", "reason"), [("_has_rapl", True, "metered"), ("virtual_machine", None, "no virtual machine")]
)
def test_where_rapl_counts_their_energy_and_on_bare_metal_cores_idle(
    device: Path, monkeypatch: pytest.MonkeyPatch, detected: str, found: object, reason: str
) -> None:
    monkeypatch.setattr(module, detected, lambda: found)
    with asked() as latency:
        assert not is_held(device)
        assert reason in str(latency.figure.reason)
    with asked("on"):
        assert is_held(device)


def test_a_kernel_that_refuses_is_told_and_stops_only_who_insists(device: Path) -> None:
    device.unlink()
    with asked() as latency:
        assert latency.figure.value is None
        assert "No such file" in str(latency.figure.reason)
    with pytest.raises(OptionError, match=r"--cpu-latency-qos on: .*No such file"):
        asked("on")
