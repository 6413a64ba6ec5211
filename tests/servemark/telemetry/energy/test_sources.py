"""The meters of GPU boards: counters and power of NVML and amdsmi, the boards that count, and why one does not tell."""

from types import ModuleType
from typing import Any

import pytest

from servemark.telemetry import energy
from servemark.telemetry.energy import meter as meters
from servemark.telemetry.energy.meter import EnergyReading, Meter, Sample, UnavailableError
from servemark.telemetry.energy.sources import amd_meter, installed
from tests.doubles.nvml import LOST, NOT_SUPPORTED, Nvml

S = 1_000_000_000
STEP_S = 0.1
"""Of a trace."""


@pytest.fixture
def few_refreshes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of one refresh are long enough."""
    monkeypatch.setattr(meters, "REFRESHES", 1)


def played(meter: Meter, nvml: Nvml, steps: int) -> EnergyReading:
    """Read `steps` steps of a trace by a meter."""
    samples, error = [], None
    for nvml.step in range(steps):
        try:
            samples.append(Sample(round(nvml.step * STEP_S * S), meter.read()))
        except UnavailableError as why:
            error = str(why)
            break
    return meter.evaluate(samples, error)


def gpu_meter(nvml: Nvml, gpus: list[int] | None = None) -> Meter:
    meter, reason = energy.open_meter("gpu_board", gpus=gpus, nvml=nvml)
    assert meter is not None, reason
    return meter


@pytest.mark.usefixtures("few_refreshes")
@pytest.mark.parametrize(("visible", "watts"), [(None, 300), ("1", 200), ("GPU-0", 100), ("GPU-1, 0", 300)])
@pytest.mark.parametrize("total_energy", [True, False])
def test_gpu_boards(total_energy: bool, visible: str | None, watts: float, monkeypatch: pytest.MonkeyPatch) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    second = {"energy_mj": range(0, 9_000_000, 20_000), "power_mw": [200_000]}
    lacking = {} if total_energy else {"energy_mj": [NOT_SUPPORTED]}
    nvml = Nvml(lacking, {**second, **lacking})
    reading = played(gpu_meter(nvml), nvml, 11)
    assert reading.average_w == pytest.approx(watts)
    assert (reading.window_s, reading.samples) == (1.0, 11)
    assert (reading.source, reading.boundary) == ("nvml_total_energy" if total_energy else "nvml_power", "gpu_board")


@pytest.mark.usefixtures("few_refreshes")
@pytest.mark.parametrize(
    ("visible", "gpus", "watts"), [(None, [1], 200), (None, [0, 1], 300), ("1", [0], 200), ("1,0", [1], 100)]
)
def test_only_the_boards_that_a_model_runs_on_are_metered(
    visible: str | None, gpus: list[int], watts: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their numbers are CUDA's, which counts what CUDA_VISIBLE_DEVICES leaves."""
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    nvml = Nvml({}, {"energy_mj": range(0, 9_000_000, 20_000)})
    assert played(gpu_meter(nvml, gpus), nvml, 11).average_w == pytest.approx(watts)
    meter, reason = energy.open_meter("gpu_board", gpus=[0, 2], nvml=nvml)
    assert meter is None
    assert f"NVML sees {1 if visible == '1' else 2} of CUDA's GPUs, not number 2" in str(reason)


@pytest.mark.usefixtures("few_refreshes")
@pytest.mark.parametrize(
    ("trace", "words"),
    [
        ({"energy_mj": [*range(1_000_000, 1_200_000, 20_000), LOST]}, "nvml_total_energy: NVML: GPU is lost"),
        ({"energy_mj": [5_000_000, 5_100_000, 200_000]}, "nvml_total_energy: the counter went from 5100 to 200 J"),
        ({"energy_mj": [5_000_000]}, "nvml_total_energy: it did not move within 0.900 s"),
    ],
    ids=["lost", "driver loaded anew", "stuck"],
)
def test_a_board_that_does_not_tell_has_a_reason(trace: dict[str, list[int]], words: str) -> None:
    nvml = Nvml(trace)
    reading = played(gpu_meter(nvml), nvml, 10 if len(trace["energy_mj"]) < 11 else 20)
    assert reading.joules is None
    assert str(reading.reason).startswith(words)


@pytest.mark.usefixtures("few_refreshes")
def test_a_counter_of_64_bits_may_wrap_around() -> None:
    last = 2**64 - 5_000
    nvml = Nvml({"energy_mj": [last, 5_000]})
    reading = played(gpu_meter(nvml), nvml, 2)
    assert reading.joules == pytest.approx(10, abs=5)  # 64 bits of mJ are more than a float tells apart


@pytest.mark.parametrize(
    ("visible", "divided", "words"),
    [*((visible, [0], "GPU 0 is divided (MIG)") for visible in (None, "MIG-0", "0")), ("", [], "no GPU")],
)
def test_what_is_not_metered_has_its_reason(
    visible: str | None, divided: list[int], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counter of a divided board has what all instances use, and an instance has none."""
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    meter, reason = energy.open_meter("gpu_board", nvml=Nvml({}, mig=divided))
    assert (meter, words in str(reason)) == (None, True)


class AmdSmiException(Exception):  # noqa: N818 - its name there
    pass


class AmdSmi(ModuleType):
    """AMD's library as its documentation describes it: steps of 15.3 µJ; a board whose answer is words fails."""

    def __init__(self, *counters: Any, key: str = "energy_accumulator") -> None:
        super().__init__("amdsmi")
        self.counters, self._key = list(counters), key

    def amdsmi_init(self) -> None: ...

    def amdsmi_get_processor_handles(self) -> list[int]:
        return list(range(len(self.counters)))

    def amdsmi_get_energy_count(self, board: int) -> dict[str, Any]:
        if isinstance(self.counters[board], str):
            raise AmdSmiException(self.counters[board])
        return {self._key: self.counters[board], "counter_resolution": 15.3, "timestamp": 1}


@pytest.mark.parametrize("key", ["energy_accumulator", "power"])
def test_steps_of_the_accumulator_are_joules(key: str) -> None:
    library = AmdSmi(1_000_000, 5_000_000, key=key)
    meter = amd_meter(library)
    before = meter.read()
    library.counters = [2_000_000, 7_000_000]
    reading = meter.evaluate([Sample(0, before), Sample(2 * S, meter.read())])
    assert reading.joules == pytest.approx(3e6 * 15.3e-6)
    assert (reading.source, reading.boundary) == ("amdsmi", "gpu_board")


def test_boards_are_numbered_as_hip_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "2,0")
    library = AmdSmi(0, 0, 1_000_000)
    assert [*amd_meter(library, gpus=[0]).read()] == pytest.approx([15.3])
    assert amd_meter(library, gpus=[1]).read() == (0,)
    with pytest.raises(UnavailableError, match="sees 2 of HIP's GPUs, not number 2"):
        amd_meter(library, gpus=[2])
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "GPU-aa")
    with pytest.raises(UnavailableError, match="not a list of its numbers"):
        amd_meter(library)


@pytest.mark.parametrize(
    ("rocr", "hip", "left"),
    [
        (None, "-1", []),
        (None, "1,-1,0", [1]),
        ("2,1", None, [2, 1]),
        ("2,1", "0", [2]),
        ("-1", "0", None),
        ("", None, []),
    ],
)
def test_hip_counts_what_rocr_leaves_up_to_a_negative_number(
    rocr: str | None, hip: str | None, left: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, numbers in (("ROCR_VISIBLE_DEVICES", rocr), ("HIP_VISIBLE_DEVICES", hip)):
        if numbers is not None:
            monkeypatch.setenv(name, numbers)
    library = AmdSmi(0, 1_000_000, 2_000_000)
    if not left:
        with pytest.raises(UnavailableError, match="sees 0" if left == [] else "not a list"):
            amd_meter(library)
    else:
        assert [*amd_meter(library).read()] == pytest.approx([15.3 * board for board in left])


def test_what_cannot_be_read_has_a_reason() -> None:
    with pytest.raises(UnavailableError, match="amdsmi: not supported on a guest"):
        amd_meter(AmdSmi("not supported on a guest"))
    with pytest.raises(UnavailableError, match="sees 0"):
        amd_meter(AmdSmi())
    if not installed():
        with pytest.raises(UnavailableError, match="No module named 'amdsmi'"):
            amd_meter()
