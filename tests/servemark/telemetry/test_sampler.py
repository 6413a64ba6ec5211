import subprocess
import sys
import threading
import time

import pytest

from servemark.telemetry.energy.meter import UnavailableError
from servemark.telemetry.gpus import Gpus
from servemark.telemetry.recording import Column, Reading
from servemark.telemetry.sampler import Sampler, open_sampler
from tests.doubles.nvml import LOST, Nvml

WATTS = Column("power_watts", "watts")


class Source:
    """Answers with these values, or raises them."""

    def __init__(self, *answers: float | Exception) -> None:
        self._answers = iter(answers)

    def read(self) -> Reading:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return {WATTS: answer}


def test_the_newest_values_are_at_hand_and_all_of_them_in_the_series() -> None:
    sampler = Sampler("machine", {"a": Source(1.0, 2.0)}, 0.1, absent={"gpu": "no driver"})
    start_s = time.monotonic()
    assert sampler.latest() == {}
    sampler.read()
    assert sampler.latest() == {WATTS: 1.0}
    sampler.read()
    assert sampler.latest() == {WATTS: 2.0}
    found = sampler.to_dict(start_s)
    assert found["columns"][0]["values"] == [1, 2]
    assert 0 <= found["time_s"][0] <= found["time_s"][1] < 60
    assert found["absent"] == {"gpu": "no driver"}


def test_a_source_that_raises_ends_nothing() -> None:
    other = Column("cpu_utilization_ratio", "ratio")

    class Steady:
        def read(self) -> Reading:
            return {other: 0.5}

    sampler = Sampler("machine", {"a": Source(1.0, ZeroDivisionError("of the driver"), 3.0), "b": Steady()}, 0.1)
    sampler.read()
    sampler.read()
    assert sampler.latest() == {other: 0.5}
    sampler.read()
    columns = {column["name"]: column for column in sampler.to_dict(0)["columns"]}
    assert columns["power_watts"]["values"] == [1, None, 3]
    assert columns["power_watts"]["reason"] == "ZeroDivisionError: of the driver"
    assert columns["cpu_utilization_ratio"]["values"] == [0.5] * 3


def test_a_source_that_never_answers_is_absent_with_its_reason() -> None:
    sampler = Sampler("triton", {"metrics": Source(UnavailableError("connection refused"), 4.0)}, 1)
    sampler.read()
    assert sampler.absent == {"metrics": "connection refused"}
    sampler.read()
    assert sampler.absent == {}


def test_a_gpu_that_vanishes_is_null_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = Nvml({"utilization": [10, 20, LOST]})
    sampler = Sampler("machine", {"gpu": Gpus(nvml=nvml)}, 0.1)
    for nvml.step in range(4):
        sampler.read()
    columns = {column["name"]: column for column in sampler.to_dict(0)["columns"]}
    assert columns["gpu_utilization_ratio"]["values"] == [0.1, 0.2, None, None]
    assert columns["gpu_utilization_ratio"]["reason"] == "NVML: GPU is lost"


def test_a_source_that_hangs_holds_nobody_up() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Hangs:
        def read(self) -> Reading:
            entered.set()
            leave.wait(60)
            return {}

    sampler = Sampler("machine", {"a": Hangs()}, 0.1)
    sampler.start()
    assert entered.wait(30)
    sampler.stop()
    found = sampler.to_dict(0)
    leave.set()
    assert (found["time_s"], found["readings"]) == ([], 0)


def test_this_machine_is_read_beside_gevent_s_loop() -> None:
    """In a process of its own, as Locust has it: the thread is the operating system's, and says what it costs."""
    code = """
import gevent.monkey; gevent.monkey.patch_all()
import time, threading
from servemark.telemetry.sampler import open_sampler
sampler = open_sampler(50)
sampler.start()
deadline = time.monotonic() + 30
while sampler.to_dict(0)["readings"] < 5 and time.monotonic() < deadline: time.sleep(0.01)
sampler.stop()
found = sampler.to_dict(0)
names = [column["name"] for column in found["columns"]]
print(threading.active_count(), found["readings"] >= 5, found["cpu_s"] > 0, "memory_used_bytes" in names)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["1", "True", "True", "True"]


def test_what_this_machine_lacks_has_a_reason() -> None:
    sampler = open_sampler(10, gpus=[99])
    assert "NVML" in sampler.absent["gpu"]
    assert sampler.absent.keys() <= {"gpu", "gpu_board", "cpu_package", "dram"}
