import pynvml
import pytest

from servemark.telemetry.energy.meter import UnavailableError
from servemark.telemetry.gpus import THROTTLE_REASONS, Gpus
from servemark.telemetry.recording import Column, Reading
from tests.doubles.nvml import LOST, NOT_SUPPORTED, Fails, Nvml


@pytest.fixture(autouse=True)
def every_board_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def of_board(reading: Reading, board: str = "0") -> dict[str, float | str]:
    """Figures by name, throttling by its reason."""
    return {
        dict(column.labels).get("reason", column.name): value
        for column, value in reading.items()
        if dict(column.labels)["gpu"] == board
    }


def test_a_board_s_figures_have_prometheus_s_units() -> None:
    found = of_board(Gpus(nvml=Nvml({})).read())
    assert found == {
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
    gpus.read()
    nvml.step = 1
    gpus.read()
    nvml.asked = 0
    found = gpus.read()
    assert set(of_board(found).values()) == {"NVML: GPU is lost"}
    assert of_board(found, "1")["gpu_power_watts"] == 100
    assert nvml.asked == 6  # the other board's


def test_a_query_that_a_board_does_not_have_is_asked_once() -> None:
    nvml = Nvml({"utilization": [NOT_SUPPORTED, 40]})
    gpus = Gpus(nvml=nvml)
    assert of_board(gpus.read())["gpu_utilization_ratio"] == "NVML: Not Supported"
    nvml.step = 1
    assert of_board(gpus.read())["gpu_utilization_ratio"] == "NVML: Not Supported"
    assert of_board(gpus.read())["gpu_power_watts"] == 100


def test_another_error_passes() -> None:
    nvml = Nvml({"power_mw": [100_000, Fails(pynvml.NVML_ERROR_UNKNOWN), 110_000]})
    gpus = Gpus(nvml=nvml)
    found = []
    for nvml.step in range(3):
        found.append(of_board(gpus.read())["gpu_power_watts"])
    assert found == [100, "NVML: Unknown Error", 110]


def test_an_instance_of_a_divided_board_shows_what_nvml_has_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-0")
    found = of_board(Gpus(nvml=Nvml({}, mig=[0])).read())
    assert {name for name, value in found.items() if not isinstance(value, str)} == {"gpu_memory_used_bytes"}
    assert found["gpu_power_watts"] == "NVML: Not Supported"


def test_columns_are_the_contract_s() -> None:
    columns = list(Gpus(nvml=Nvml({})).read())
    assert Column("gpu_utilization_ratio", "ratio", (("gpu", "0"),)) in columns
    assert Column("gpu_throttled", "ratio", (("gpu", "0"), ("reason", "hw_thermal"))) in columns


def test_no_board() -> None:
    with pytest.raises(UnavailableError, match="no GPU"):
        Gpus(nvml=Nvml())
