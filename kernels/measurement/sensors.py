"""Readings of a device while a kernel runs: joules of a call, its clock, and why that is throttled; and other work.

The device is read after the times are taken, from calls of its own. Where nothing can be read no call is made. Other
work is the share of the cores that it and other virtual machines take while kernels are timed.
"""

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import psutil

from servemark.machine.cpu_time import CannotTell, Watch
from servemark.stats.unknown import explained, unknown
from servemark.telemetry.energy import BOUNDARY_OF_DEVICE, open_meter
from servemark.telemetry.energy.meter import REFRESHES, UPDATE_S, Meter, UnavailableError
from servemark.telemetry.recording import Reading
from servemark.telemetry.sampler import Gpus

WINDOW_S = 0.5
"""Shortest time of the calls (s); a meter that is refreshed rarely needs longer."""
CPUS = Path("/sys/devices/system/cpu")
QUEUED, WAITS = 100, 4
"""Most calls that a GPU's queue takes before it is waited for, and fewest waits in the time of all calls: the queue
takes calls faster than the GPU does them."""
NO_CLOCK = "the CPU does not tell its clock (no cpufreq)"
Call = Callable[[], object]


class Clocks(TypedDict):
    """Clock in MHz, and the reasons that hold it back; either may be unknown."""

    clock_mhz: float | None
    throttled: list[str] | None


class Felt(Clocks):
    """Readings of the meters amid the calls."""

    joules: float | None


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

    @explained
    def feel(self, call: Call, wait: Call, seconds: float) -> Felt:
        """Call for a while and read; `wait` returns when the device is done, `seconds` is the time of one call.

        What is missing has its reason.
        """
        if self._meter is None and self._clock_reason:
            return {"joules": self._energy(0), **self._clocks()}
        window_s = WINDOW_S if self._meter is None else max(WINDOW_S, REFRESHES * UPDATE_S[self._meter.source])
        queued = max(1, min(QUEUED, int(window_s / WAITS / seconds)))
        if self._meter:
            self._meter.start()
        begun, calls = time.perf_counter(), 0
        clocks: Clocks | None = None
        while time.perf_counter() - begun < window_s:
            call()
            calls += 1
            if clocks is None and time.perf_counter() - begun > window_s / 2:
                clocks = self._clocks()  # amid the work
            if calls % queued == 0:
                wait()
        wait()
        return {"joules": self._energy(calls), **(clocks or self._clocks())}

    def _energy(self, calls: int) -> float | None:
        """Return the energy of one of the calls."""
        if self._meter is None:
            return unknown(self._meter_reason or "no meter")
        reading = self._meter.stop()
        return unknown(str(reading.reason)) if reading.joules is None else reading.joules / calls

    def _clocks(self) -> Clocks:
        """Clock and throttling now."""
        if self._boards:
            return _of_board(self._boards.read())
        mhz = self._cpu_mhz()
        if mhz is None:
            reason = self._clock_reason or NO_CLOCK
            return {"clock_mhz": unknown(reason), "throttled": unknown(reason)}
        return {"clock_mhz": mhz, "throttled": unknown("a CPU does not tell why its clock is what it is")}

    def _cpu_mhz(self) -> float | None:
        """Mean over all CPUs."""
        khz = []
        for file in self._cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"):
            text = file.read_text().strip()
            if text.isdecimal():
                khz.append(int(text))
        return sum(khz) / len(khz) / 1e3 if khz else None


@functools.cache
def sensors_of(device: str) -> Sensors:
    """Those of a device, opened once in a process."""
    return Sensors(device)


def _of_board(reading: Reading) -> Clocks:
    """The first board's clock, and why it is held back."""
    mhz: float | None = unknown("the board does not tell its clock")
    throttled: list[str] = []
    for column, value in reading.items():
        if column.name == "gpu_sm_clock_hertz":
            mhz = unknown(value) if isinstance(value, str) else value / 1e6
        if column.name == "gpu_throttled" and value == 1.0:
            throttled.append(dict(column.labels)["reason"])
        elif column.name == "gpu_throttled" and isinstance(value, str):
            return {"clock_mhz": mhz, "throttled": unknown(value)}
    return {"clock_mhz": mhz, "throttled": throttled}


def busy_share() -> float:
    """Share of all cores that other work uses now."""
    return psutil.cpu_percent(interval=0.5) / 100


def watching() -> Watch | CannotTell:
    """The cores from now on, or why they cannot be watched."""
    try:
        return Watch({"kernels": [os.getpid()]})
    except CannotTell as reason:
        return reason


def taken(watch: Watch | CannotTell) -> float | None:
    """Return the share of the cores that others took since then, else an unknown figure."""
    try:
        if isinstance(watch, CannotTell):
            raise watch
        return watch.use().other_cpu_share
    except CannotTell as reason:
        return unknown(str(reason))
