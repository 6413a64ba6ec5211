"""Readings at the boundaries of the measured interval: CPU time, the target's counters, the energy meter."""

import contextlib
import itertools
import math
import time
from collections.abc import Sequence
from threading import Thread
from typing import Any, Protocol

from gevent import GreenletExit

from loadgen.measurement.windows import Interval
from loadgen.sut.target import Target
from servemark import interrupts
from servemark.telemetry.energy import BOUNDARY_OF_DEVICE, Boundary, EnergyReading, Meter, PowerCommand, open_meter

IDLE_S = 2.0
"""Length of the energy meter's idle baseline, if there is a meter: 20 refreshes of a GPU's counter."""
READ_TIMEOUT_S = 10.0
"""Maximum wait for the target's counters at the end of a run."""
INTERRUPTED_READ_TIMEOUT_S = 2.0
"""The same where a signal ends it."""


class Reading(Protocol):
    """Reading that is taken when the measured interval begins, and again when it ends."""

    def begin(self) -> None:
        """Read it at the start."""

    def finish(self) -> None:
        """Read it at the end."""


class Timed(Protocol):
    """Owner of the measured interval's times."""

    @property
    def interval(self) -> Interval:
        """The measured interval, as it is known now."""

    def is_over(self, now: int) -> bool:
        """Return True if the measured interval has passed."""


class Boundaries:
    """Has readings taken, once each, when the measured interval begins and when it ends."""

    def __init__(self, *readings: Reading) -> None:
        self._readings = readings
        self._begun = self._finished = False

    def tick(self, now: int, timed: Timed) -> None:
        """Take the readings whose time has come."""
        if now >= timed.interval.start:
            self._begin()
        if timed.is_over(now):
            self.finish()

    def finish(self) -> None:
        """Take those that are missing, also of a run that was cut short."""
        self._begin()
        if not self._finished:
            self._finished = True
            for reading in self._readings:
                reading.finish()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            for reading in self._readings:
                reading.begin()


class CpuTime:
    """CPU time of the thread that calls it."""

    def __init__(self) -> None:
        self._start: tuple[float, float] | None = None
        self._end: tuple[float, float] | None = None

    def begin(self) -> None:
        """Note the times of the thread and of the clock."""
        self._start = _thread_and_clock_s()

    def finish(self) -> None:
        """Note them again."""
        self._end = _thread_and_clock_s()

    @property
    def share(self) -> float | None:
        """Share of one core that was used until now or the end, None before the start."""
        if self._start is None:
            return None
        (cpu, wall), (cpu_end, wall_end) = self._start, self._end or _thread_and_clock_s()
        return (cpu_end - cpu) / (wall_end - wall) if wall_end > wall else None


class Statistics:
    """The target's counters. It answers to a thread (under Locust: a greenlet), so that the schedule goes on."""

    def __init__(self, target: Target) -> None:
        self.before: dict[str, Any] | None = None
        self.after: dict[str, Any] | None = None
        self.late: dict[str, Any] | None = None
        """Statistics at the end or, if there are none, of some seconds later, which only show that the target lives."""
        self.available = target.statistics() is not None
        """True if the target gave statistics before the load: without any after it, the target is gone."""
        self._target = target
        self._readers: list[Thread] = []

    def begin(self) -> None:
        """Ask for them at the start."""
        self._ask("before")

    def finish(self) -> None:
        """Ask for them at the end."""
        self._ask("after")

    def wait(self) -> None:
        """Wait for the target's answers.

        An overloaded one may be too busy to give its counters when the interval ends. It is asked once more, since all
        requests have their outcome by now.
        """
        self._wait()
        if self.available and self.after is None:
            self._ask("late")
            self._wait()

    def _wait(self) -> None:
        start = time.monotonic()
        with contextlib.suppress(GreenletExit):
            for reader in self._readers:
                while reader.is_alive() and time.monotonic() - start < _read_timeout_s():
                    reader.join(interrupts.POLL_S)

    def _ask(self, name: str) -> None:
        reader = Thread(target=lambda: setattr(self, name, self._target.statistics()), daemon=True)
        reader.start()
        self._readers.append(reader)


class Energy:
    """The energy of the device that computes, and of the idle one, where there is a meter for it.

    A command of the user's is the meter where there is one: also of a server elsewhere. Raises OptionError where it
    cannot be started.
    """

    def __init__(
        self, target: Target, device: str | None, gpus: Sequence[int] = (), command: tuple[str, Boundary] | None = None
    ) -> None:
        self.reading: EnergyReading | None = None
        self.command = PowerCommand(*command) if command else None
        try:
            self._meter, self.reason = _meter(target, device, gpus, self.command)
            """`reason`: why there is no meter."""
            self.idle = _idle(self._meter)
            """Before the load."""
        except BaseException:  # a Stop in Locust's web UI is a GreenletExit
            self.close()
            raise

    def begin(self) -> None:
        """Start the meter."""
        if self._meter is not None:
            self._meter.start()

    def finish(self) -> None:
        """Stop the meter."""
        if self._meter is not None:
            self.reading = self._meter.stop()

    def joules_between(self, times_ns: Sequence[float], completed: Sequence[int]) -> list[tuple[float, int]]:
        """Return the joules and the answers of the stretches between these times, joined until the meter tells them.

        `completed` are the answers of each stretch. Empty where nothing was metered.
        """
        if self._meter is None or self.reading is None or self.reading.joules is None:
            return []
        each_s = (times_ns[-1] - times_ns[0]) / 1e9 / len(completed)
        joined = max(math.ceil(self._meter.resolved_s / each_s - 1e-9), 1) if each_s else len(completed)
        ends = list(range(0, len(completed) + 1, joined))
        joules = self._meter.joules_until([times_ns[end] for end in ends])
        return [
            (joules[number + 1] - joules[number], sum(completed[first:last]))
            for number, (first, last) in enumerate(itertools.pairwise(ends))
        ]

    @property
    def resolved_s(self) -> float:
        """Shortest stretch whose energy the meter tells."""
        return self._meter.resolved_s if self._meter is not None else 0.0

    def close(self) -> None:
        """End the user's command."""
        if self.command is not None:
            self.command.close()


def _thread_and_clock_s() -> tuple[float, float]:
    return time.thread_time(), time.monotonic()


def _read_timeout_s() -> float:
    return INTERRUPTED_READ_TIMEOUT_S if interrupts.requested() else READ_TIMEOUT_S


def _meter(
    target: Target, device: str | None, gpus: Sequence[int], command: PowerCommand | None
) -> tuple[Meter | None, str | None]:
    """The meter of the device that computes, or why there is none. Raises KeyboardInterrupt."""
    if command is not None:
        reason = command.wait_for_first()
        return (command.meter, None) if reason is None else (None, reason)
    if not target.local:
        return None, "the server runs on another machine, which cannot be metered from here: --power-command"
    return open_meter(BOUNDARY_OF_DEVICE[(device or "cpu").partition(":")[0]], gpus=gpus or None)


def _idle(meter: Meter | None) -> EnergyReading | None:
    if meter is None:
        return None
    meter.start()
    time.sleep(IDLE_S)
    return meter.stop()
