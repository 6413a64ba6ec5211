from types import ModuleType
from typing import Any

import pytest

from servemark.telemetry.energy.meter import Sample, UnavailableError
from servemark.telemetry.energy.sources import VISIBLE, amd_meter, installed

S = 1_000_000_000


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


@pytest.fixture(autouse=True)
def every_board_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VISIBLE:
        monkeypatch.delenv(name, raising=False)


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


def test_what_cannot_be_read_has_a_reason() -> None:
    with pytest.raises(UnavailableError, match="amdsmi: not supported on a guest"):
        amd_meter(AmdSmi("not supported on a guest"))
    with pytest.raises(UnavailableError, match="sees 0"):
        amd_meter(AmdSmi())
    if not installed():
        with pytest.raises(UnavailableError, match="No module named 'amdsmi'"):
            amd_meter()
