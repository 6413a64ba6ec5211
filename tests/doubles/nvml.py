"""NVML that plays a trace: what boards say at each step of it, errors included. The test sets the step."""

from collections.abc import Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pynvml

Trace = Mapping[str, Sequence[Any]]
"""Query (energy_mj, power_mw, utilization, memory, temperature, sm_clock_mhz, throttle) -> an answer for each step, the
last one for all that follow; a number of NVML's errors (NVML_ERROR_...) where it is a `Fails`."""
USUAL: Trace = {
    "energy_mj": range(1_000_000, 9_000_000, 10_000),
    "power_mw": [100_000],
    "utilization": [40],
    "memory": [2 << 30],
    "temperature": [55],
    "sm_clock_mhz": [1410],
    "throttle": [0],
}
"""A board of 100 W, where a step is 0.1 s."""


class Fails(int):
    """An answer that is an error."""


LOST = Fails(pynvml.NVML_ERROR_GPU_IS_LOST)
NOT_SUPPORTED = Fails(pynvml.NVML_ERROR_NOT_SUPPORTED)


class Handle(str):
    """A board's handle, "0", or "MIG-0" of an instance; like NVML's, which are pointers, it has no hash."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]


class Nvml(ModuleType):
    """Boards of these traces. A number in `mig` is a board that is divided; the handle of its instance is "MIG-n"."""

    def __init__(self, *traces: Trace, mig: Sequence[int] = ()) -> None:
        super().__init__("pynvml")
        self.step = 0
        self.asked = 0
        self._traces = [{**USUAL, **trace} for trace in traces]
        self._mig = set(mig)
        for name in dir(pynvml):
            if name.startswith(("NVML_", "nvmlClocksThrottleReason")) or name == "NVMLError":
                setattr(self, name, getattr(pynvml, name))

    def nvmlInit(self) -> None: ...  # noqa: N802 - NVML's names

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._traces)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802
        return Handle(index)

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:  # noqa: N802
        return Handle(uuid.removeprefix("GPU-"))

    def nvmlDeviceGetIndex(self, board: Any) -> int:  # noqa: N802
        return self._board(board)

    def nvmlDeviceIsMigDeviceHandle(self, board: Any) -> bool:  # noqa: N802
        return str(board).startswith("MIG-")

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, board: str) -> Any:  # noqa: N802
        return Handle(self._board(board))

    def nvmlDeviceGetMigMode(self, board: Any) -> list[int]:  # noqa: N802
        return [int(self._board(board) in self._mig)] * 2

    def nvmlDeviceGetTotalEnergyConsumption(self, board: Any) -> Any:  # noqa: N802
        return self._answer(board, "energy_mj")

    def nvmlDeviceGetPowerUsage(self, board: Any) -> Any:  # noqa: N802
        return self._answer(board, "power_mw")

    def nvmlDeviceGetUtilizationRates(self, board: Any) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=self._answer(board, "utilization"))

    def nvmlDeviceGetMemoryInfo(self, board: Any) -> Any:  # noqa: N802
        return SimpleNamespace(used=self._answer(board, "memory"))

    def nvmlDeviceGetTemperature(self, board: Any, sensor: int) -> Any:  # noqa: N802
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return self._answer(board, "temperature")

    def nvmlDeviceGetClockInfo(self, board: Any, clock: int) -> Any:  # noqa: N802
        assert clock == pynvml.NVML_CLOCK_SM
        return self._answer(board, "sm_clock_mhz")

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, board: Any) -> Any:  # noqa: N802
        return self._answer(board, "throttle")

    def _board(self, board: Any) -> int:
        return int(str(board).removeprefix("MIG-"))

    def _answer(self, board: Any, query: str) -> Any:
        self.asked += 1
        if board.startswith("MIG-") and query not in {"memory"}:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        answers = self._traces[self._board(board)][query]
        answer = answers[min(self.step, len(answers) - 1)]
        if isinstance(answer, Fails):
            raise pynvml.NVMLError(int(answer))
        return answer
