"""Readings of GPU boards during a run (NVML API reference, device queries)."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from servemark.telemetry.energy.sources import open_boards
from servemark.telemetry.recording import Column, Reading

THROTTLE_REASONS = {
    "sw_power_cap": "nvmlClocksThrottleReasonSwPowerCap",
    "hw_slowdown": "nvmlClocksThrottleReasonHwSlowdown",
    "sw_thermal": "nvmlClocksThrottleReasonSwThermalSlowdown",
    "hw_thermal": "nvmlClocksThrottleReasonHwThermalSlowdown",
    "hw_power_brake": "nvmlClocksThrottleReasonHwPowerBrakeSlowdown",
}
"""Reasons for lower clocks. An idle board and clocks set by the user do not count as throttling."""

Query = tuple[tuple[Column, ...], Callable[[], Sequence[float]]]


class Gpus:
    """Every board that CUDA_VISIBLE_DEVICES leaves, or those with these numbers in CUDA. Raises UnavailableError."""

    def __init__(self, gpus: Sequence[int] | None = None, nvml: ModuleType | None = None) -> None:
        self._nvml, boards = open_boards(nvml, gpus)
        self._queries = [self._queries_of(board) for board in boards]
        self._gone: dict[int | tuple[Column, ...], str] = {}
        """Places of boards and columns of queries that nothing more comes from, and why. A handle has no hash."""

    def read(self) -> Reading:
        found: dict[Column, float | str] = {}
        for place, queries in enumerate(self._queries):
            for columns, query in queries:
                found |= self._read(place, columns, query)
        return found

    def _read(self, place: int, columns: tuple[Column, ...], query: Callable[[], Sequence[float]]) -> Reading:
        for gone in (place, columns):
            if gone in self._gone:
                return dict.fromkeys(columns, self._gone[gone])
        try:
            return dict(zip(columns, query(), strict=True))
        except self._nvml.NVMLError as error:
            reason = f"NVML: {error}"
            code = getattr(error, "value", None)
            if code == self._nvml.NVML_ERROR_GPU_IS_LOST:
                self._gone[place] = reason
            elif code == self._nvml.NVML_ERROR_NOT_SUPPORTED:
                self._gone[columns] = reason
            return dict.fromkeys(columns, reason)

    def _queries_of(self, board: Any) -> list[Query]:
        nvml = self._nvml
        labels = (("gpu", str(nvml.nvmlDeviceGetIndex(board))),)
        masks = {name: getattr(nvml, constant) for name, constant in THROTTLE_REASONS.items()}

        def one(name: str, unit: str, query: Callable[[], float]) -> Query:
            return (Column(f"gpu_{name}", unit, labels),), lambda: (query(),)

        def throttled() -> list[float]:
            reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(board)
            return [float(bool(reasons & mask)) for mask in masks.values()]

        throttle_columns = tuple(Column("gpu_throttled", "ratio", (*labels, ("reason", name))) for name in masks)
        return [
            one("utilization_ratio", "ratio", lambda: nvml.nvmlDeviceGetUtilizationRates(board).gpu / 100),
            one("memory_used_bytes", "bytes", lambda: float(nvml.nvmlDeviceGetMemoryInfo(board).used)),
            one("power_watts", "watts", lambda: nvml.nvmlDeviceGetPowerUsage(board) / 1000),
            one(
                "temperature_celsius",
                "celsius",
                lambda: float(nvml.nvmlDeviceGetTemperature(board, nvml.NVML_TEMPERATURE_GPU)),
            ),
            one("sm_clock_hertz", "hertz", lambda: nvml.nvmlDeviceGetClockInfo(board, nvml.NVML_CLOCK_SM) * 1e6),
            (throttle_columns, throttled),
        ]
