"""What is read at the edges of the measured interval: the target's counters and the energy meter."""

import contextlib
import re
import time
from dataclasses import dataclass
from threading import Thread
from typing import Any

from gevent import GreenletExit

from loadgen.sut.target import Target
from servemark.telemetry.energy import BOUNDARY_OF_DEVICE, EnergyReading, Meter, open_meter

IDLE_S = 1.0
"""How long the idle baseline of the energy meter is taken, where there is a meter."""
READ_TIMEOUT_S = 10.0
"""How long the end of a run waits for the target's counters."""


@dataclass
class Edge:
    """What was read at one edge of the measured interval."""

    statistics: dict[str, Any] | None = None
    read: bool = False


class Edges:
    """Reads each edge once. The target answers to a thread (under Locust: a greenlet), so that the schedule goes on."""

    def __init__(self, target: Target, device: str | None) -> None:
        self.start, self.end = Edge(), Edge()
        self.energy: EnergyReading | None = None
        self.had_statistics = target.statistics() is not None
        self._target = target
        self._meter, self.energy_reason = _meter(target, device)
        self.idle = _idle(self._meter)
        self._readers: list[Thread] = []

    def begin(self) -> None:
        """Read what is read at the start, unless it has been."""
        if self._take(self.start) and self._meter is not None:
            self._meter.start()

    def finish(self) -> None:
        """Read what is read at the end, unless it has been."""
        if self._take(self.end) and self._meter is not None:
            self.energy = self._meter.stop()

    def wait(self) -> None:
        """Wait for the target's answers."""
        with contextlib.suppress(GreenletExit):
            for reader in self._readers:
                reader.join(READ_TIMEOUT_S)

    def _take(self, edge: Edge) -> bool:
        if edge.read:
            return False
        edge.read = True

        def read() -> None:
            edge.statistics = self._target.statistics()

        reader = Thread(target=read, daemon=True)
        reader.start()
        self._readers.append(reader)
        return True


def _meter(target: Target, device: str | None) -> tuple[Meter | None, str | None]:
    """The meter of the device that computes, or why there is none."""
    if not target.local:
        return None, "the server runs on another machine, which cannot be metered from here"
    gpus = [int(number) for number in re.findall(r"cuda:(\d+)", device or "")]
    return open_meter(BOUNDARY_OF_DEVICE[(device or "cpu").partition(":")[0]], gpus=gpus or None)


def _idle(meter: Meter | None) -> EnergyReading | None:
    if meter is None:
        return None
    meter.start()
    time.sleep(IDLE_S)
    return meter.stop()
