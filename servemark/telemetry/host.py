"""The CPU and the memory of this machine, as all of its processes use them (psutil, from proc(5))."""

from typing import Any

import psutil

from servemark.telemetry.recording import Column, Reading

CPU = Column("cpu_utilization_ratio", "ratio")
STOLEN = Column("cpu_stolen_ratio", "ratio")
"""CPU time taken by other virtual machines."""
MEMORY = Column("memory_used_bytes", "bytes")
_FIRST = "a share needs two readings"


class Host:
    """Shares of all cores since the reading before, and the memory that is not available."""

    def __init__(self) -> None:
        self._before: Any = None

    def read(self) -> Reading:
        times, self._before, before = (found := psutil.cpu_times()), found, self._before
        memory = psutil.virtual_memory()
        busy, stolen = (_FIRST, _FIRST) if before is None else _shares(before, times)
        return {CPU: busy, STOLEN: stolen, MEMORY: float(memory.total - memory.available)}


def _shares(before: Any, times: Any) -> tuple[float | str, float | str]:
    """The shares of the time between two readings that were busy, and stolen."""
    passed = {name: getattr(times, name) - getattr(before, name) for name in times._fields}
    # A guest's time is part of the user's.
    whole_s = sum(seconds for name, seconds in passed.items() if not name.startswith("guest"))
    if whole_s <= 0:
        return "the kernel's clock ticks did not move", "the kernel's clock ticks did not move"
    stolen_s = passed["steal"]
    busy_s = whole_s - passed["idle"] - passed["iowait"] - stolen_s
    return min(max(busy_s / whole_s, 0.0), 1.0), min(max(stolen_s / whole_s, 0.0), 1.0)
