import itertools
import subprocess
import sys
import threading
import time
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import psutil
import pynvml
import pytest

from servemark.telemetry.energy.meter import Meter, UnavailableError
from servemark.telemetry.recording import Column, Reading
from servemark.telemetry.sampler import CPU, MEMORY, STOLEN, THROTTLE_REASONS, Gpus, Host, Power, Sampler, open_sampler
from tests.doubles.nvml import LOST, NOT_SUPPORTED, Fails, Nvml

WATTS = Column("power_watts", "watts")
UNKNOWN = Fails(pynvml.NVML_ERROR_UNKNOWN)
Times = namedtuple("Times", "user nice system idle iowait irq softirq steal guest guest_nice")


def source(*answers: float | Exception, column: Column = WATTS) -> Callable[[], Reading]:
    """Answer with these values, or raise them."""
    coming = iter(answers)

    def read() -> Reading:
        answer = next(coming)
        if isinstance(answer, Exception):
            raise answer
        return {column: answer}

    return read


def test_the_newest_values_are_at_hand_and_all_of_them_in_the_series() -> None:
    sampler = Sampler("machine", {"a": source(1.0, 2.0)}, 0.1, absent={"gpu": "no driver"})
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
    failing, steady = source(1.0, ZeroDivisionError("of the driver"), 3.0), source(0.5, 0.5, 0.5, column=CPU)
    sampler = Sampler("machine", {"a": failing, "b": steady}, 0.1)
    sampler.read()
    sampler.read()
    assert sampler.latest() == {CPU: 0.5}
    sampler.read()
    columns = {column["name"]: column for column in sampler.to_dict(0)["columns"]}
    assert columns["power_watts"]["values"] == [1, None, 3]
    assert columns["power_watts"]["reason"] == "ZeroDivisionError: of the driver"
    assert columns["cpu_utilization_ratio"]["values"] == [0.5] * 3


def test_a_source_that_never_answers_is_absent_with_its_reason() -> None:
    sampler = Sampler("triton", {"metrics": source(UnavailableError("connection refused"), 4.0)}, 1)
    sampler.read()
    assert sampler.absent == {"metrics": "connection refused"}
    sampler.read()
    assert sampler.absent == {}


def test_a_source_that_hangs_holds_nobody_up() -> None:
    entered, leave = threading.Event(), threading.Event()

    def hang() -> Reading:
        entered.set()
        leave.wait(60)
        return {}

    sampler = Sampler("machine", {"a": hang}, 0.1)
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


def test_shares_are_of_the_time_between_two_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([Times(10, 0, 5, 100, 1, 0, 0, 2, 3, 0), Times(12, 0, 6, 105, 2, 0, 0, 3, 5, 0)])
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(times))
    host = Host()
    first: Any = host.read()
    assert first[CPU] == first[STOLEN] == "a share needs two readings"
    assert 0 < first[MEMORY] < psutil.virtual_memory().total
    second = host.read()
    # 10 s of all cores: 3 busy (a guest's 2 are part of the user's), 5 idle, 1 waiting, 1 stolen.
    assert [second[CPU], second[STOLEN]] == pytest.approx([0.3, 0.1])


def test_clock_ticks_that_stand_still_have_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_times", lambda: Times(*[1.0] * 10))
    host = Host()
    host.read()
    assert host.read()[CPU] == "the kernel's clock ticks did not move"


def figures(power: Power) -> list[float | str]:
    """Power, then energy."""
    return list(power.read().values())


def every(seconds: float) -> Callable[[], int]:
    """A clock that goes on so much each time."""
    times = itertools.count()
    return lambda: round(next(times) * seconds * 1e9)


def test_a_counter_s_power_is_the_mean_of_the_last_second() -> None:
    joules = itertools.chain([50.0], itertools.accumulate(itertools.repeat(10.0), initial=60.0))
    power = Power(Meter("rapl", "cpu_package", lambda: (next(joules) % 100, 0.0), ranges_j=[100.0, 100.0]), every(0.1))
    found = [figures(power) for _ in range(30)]
    assert found[0] == ["a counter's power needs two readings", 0]
    # 10 J in 0.1 s; the counter wraps around every second
    assert found[1] == [pytest.approx(100), 10]
    assert found[-1] == [pytest.approx(100), 290]
    labels = {"boundary": "cpu_package", "source": "rapl"}
    assert [dict(column.labels) for column in power.read()] == [labels, labels]
    assert [column.counter for column in power.read()] == [False, True]


def test_a_meter_of_power_is_integrated() -> None:
    watts = iter([100.0, 200.0, 200.0])
    power = Power(Meter("nvml_power", "gpu_board", lambda: (next(watts),), ranges_j=None), every(1))
    assert [figures(power) for _ in range(3)] == [[100, 0], [200, 150], [200, 350]]


def test_a_meter_that_is_lost_stays_lost() -> None:
    """It would not know what was used meanwhile."""
    answers = iter([5.0, None, 9.0])

    def read() -> tuple[float, ...]:
        if (answer := next(answers)) is None:
            raise UnavailableError("energy_uj: permission denied")
        return (answer,)

    power = Power(Meter("rapl", "dram", read, ranges_j=[100.0]))
    figures(power)
    assert figures(power) == figures(power) == ["energy_uj: permission denied"] * 2


def of_board(reading: Reading, board: str = "0") -> dict[str, float | str]:
    """Figures by name, throttling by its reason."""
    return {
        dict(column.labels).get("reason", column.name): value
        for column, value in reading.items()
        if dict(column.labels)["gpu"] == board
    }


def test_a_board_s_figures_have_prometheus_s_units() -> None:
    reading = Gpus(nvml=Nvml({})).read()
    assert Column("gpu_utilization_ratio", "ratio", (("gpu", "0"),)) in reading
    assert Column("gpu_throttled", "ratio", (("gpu", "0"), ("reason", "hw_thermal"))) in reading
    assert of_board(reading) == {
        "gpu_utilization_ratio": 0.4,
        "gpu_memory_used_bytes": 2 << 30,
        "gpu_power_watts": 100,
        "gpu_temperature_celsius": 55,
        "gpu_sm_clock_hertz": 1.41e9,
        **dict.fromkeys(THROTTLE_REASONS, 0),
    }


def test_throttling_has_its_reasons_and_an_idle_board_none() -> None:
    thermal = pynvml.nvmlClocksThrottleReasonHwThermalSlowdown | pynvml.nvmlClocksThrottleReasonHwSlowdown
    nvml = Nvml({"throttle": [pynvml.nvmlClocksThrottleReasonGpuIdle, thermal]})
    gpus = Gpus(nvml=nvml)
    assert {of_board(gpus.read())[name] for name in THROTTLE_REASONS} == {0}
    nvml.step = 1
    found = of_board(gpus.read())
    assert [name for name in THROTTLE_REASONS if found[name]] == ["hw_slowdown", "hw_thermal"]


def test_a_board_that_vanishes_has_a_reason_and_is_asked_no_more() -> None:
    nvml = Nvml({"power_mw": [100_000, LOST]}, {})
    gpus = Gpus(nvml=nvml)
    for nvml.step in range(2):
        gpus.read()
    nvml.asked = 0
    found = gpus.read()
    assert set(of_board(found).values()) == {"NVML: GPU is lost"}
    assert of_board(found, "1")["gpu_power_watts"] == 100
    assert nvml.asked == 6  # the other board's


@pytest.mark.parametrize(
    ("query", "answers", "column", "shown"),
    [
        ("utilization", [NOT_SUPPORTED, 40, 40], "gpu_utilization_ratio", ["NVML: Not Supported"] * 3),
        ("power_mw", [100_000, UNKNOWN, 110_000], "gpu_power_watts", [100, "NVML: Unknown Error", 110]),
    ],
)
def test_a_query_that_a_board_does_not_have_is_asked_once_and_another_error_passes(
    query: str, answers: list[int], column: str, shown: list[float | str]
) -> None:
    nvml = Nvml({query: answers})
    gpus, found = Gpus(nvml=nvml), []
    for nvml.step in range(3):
        found.append(of_board(gpus.read())[column])
    assert found == shown


def test_an_instance_of_a_divided_board_shows_what_nvml_has_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-0")
    found = of_board(Gpus(nvml=Nvml({}, mig=[0])).read())
    assert {name for name, value in found.items() if not isinstance(value, str)} == {"gpu_memory_used_bytes"}
    assert found["gpu_power_watts"] == "NVML: Not Supported"


def test_no_board() -> None:
    with pytest.raises(UnavailableError, match="no GPU"):
        Gpus(nvml=Nvml())
