"""Readings of a device while a kernel runs: joules of a call, its clock, and why that is throttled.

It is read after the times are taken, from calls of its own. Where nothing can be read no call is made.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from servemark.results.schema.header import unknown
from servemark.telemetry.energy import BOUNDARY_OF_DEVICE, Meter, open_meter
from servemark.telemetry.energy.meter import UPDATE_S, UnavailableError
from servemark.telemetry.gpus import Gpus
from servemark.telemetry.recording import Reading

WINDOW_S = 0.5
"""Shortest time of the calls (s); a meter that is refreshed rarely has several of its updates in it."""
UPDATES = 3
CPUS = Path("/sys/devices/system/cpu")
QUEUED = 100
"""Calls that a GPU's queue takes before it is waited for: it takes them faster than it does them."""
NO_CLOCK = "the CPU does not tell its clock (no cpufreq)"
KEYS = ("joules", "clock_mhz", "throttled")
Call = Callable[[], object]


@functools.cache
def sensors_of(device: str) -> "Sensors":
    """Those of a device, opened once in a process."""
    return Sensors(device)


class Sensors:
    """A meter of energy and a clock, as far as the device has them."""

    def __init__(self, device: str, cpus: Path = CPUS) -> None:
        kind, _, number = device.partition(":")
        gpus = [int(number)] if number else None
        self._cpus = cpus
        self._meter: Meter | None
        self._meter_reason: str | None
        self._meter, self._meter_reason = open_meter(BOUNDARY_OF_DEVICE[kind], gpus=gpus)
        self._boards: Gpus | None = None
        self._clock_reason = ""
        if kind == "cpu":
            if self._cpu_mhz() is None:
                self._clock_reason = NO_CLOCK
            return
        try:
            self._boards = Gpus(gpus)
        except UnavailableError as error:
            self._clock_reason = str(error)

    def feel(self, call: Call, wait: Call) -> dict[str, Any]:
        """Call for a while and read; `wait` returns when the device is done. What is missing has its reason."""
        if self._meter is None and self._clock_reason:
            return self._energy(0) | self._clocks()
        window_s = WINDOW_S if self._meter is None else max(WINDOW_S, UPDATES * UPDATE_S[self._meter.source])
        if self._meter:
            self._meter.start()
        begun, calls = time.perf_counter(), 0
        clocks: dict[str, Any] = {}
        while time.perf_counter() - begun < window_s:
            call()
            calls += 1
            if not clocks and time.perf_counter() - begun > window_s / 2:
                clocks = self._clocks()  # amid the work
            elif calls % QUEUED == 0:
                wait()
        wait()
        return self._energy(calls) | (clocks or self._clocks())

    def _energy(self, calls: int) -> dict[str, Any]:
        """Return the energy of one of the calls."""
        if self._meter is None:
            return unknown(("joules",), self._meter_reason or "no meter")
        reading = self._meter.stop()
        if reading.joules is None:
            return unknown(("joules",), str(reading.reason))
        return {"joules": reading.joules / calls}

    def _clocks(self) -> dict[str, Any]:
        """Clock and throttling now."""
        if self._boards:
            return _of_board(self._boards.read())
        mhz = self._cpu_mhz()
        if mhz is None:
            return unknown(("clock_mhz", "throttled"), self._clock_reason or NO_CLOCK)
        return {"clock_mhz": mhz} | unknown(("throttled",), "a CPU does not tell why its clock is what it is")

    def _cpu_mhz(self) -> float | None:
        """Mean over all CPUs."""
        khz = []
        for file in self._cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"):
            text = file.read_text().strip()
            if text.isdecimal():
                khz.append(int(text))
        return sum(khz) / len(khz) / 1e3 if khz else None


def _of_board(reading: Reading) -> dict[str, Any]:
    """The first board's clock, and why it is held back."""
    found: dict[str, Any] = {"throttled": []}
    for column, value in reading.items():
        if column.name == "gpu_sm_clock_hertz":
            found |= unknown(("clock_mhz",), value) if isinstance(value, str) else {"clock_mhz": value / 1e6}
        if column.name == "gpu_throttled" and value == 1.0:
            found["throttled"].append(dict(column.labels)["reason"])
        elif column.name == "gpu_throttled" and isinstance(value, str):
            return found | unknown(("throttled",), value)
    return found
