"""One measurement: checks the target, drives the load, takes the target's counters at the interval's edges."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from gevent import GreenletExit

from loadgen.agreement import require_fit
from loadgen.arrivals import ClosedLoop, OpenLoop
from loadgen.channel import Outcome, Payload
from loadgen.control import failure_kind
from loadgen.driver import Driver
from loadgen.options import LoadConfig
from loadgen.recorder import Interval, Recorder
from loadgen.target import Placement, Target
from servemark.artifacts import Golden
from servemark.energy import BOUNDARY_OF_DEVICE, EnergyReading, Meter, open_meter
from servemark.errors import ServerError

START_IN_S = 0.05
"""The schedule begins this long after the connections are open."""
IDLE_S = 1.0
"""How long the idle baseline of the energy meter is taken, where there is a meter."""
CONNECT_AHEAD = 64
"""Channels that an open loop opens ahead; it opens more when they are all busy."""
START_TIMEOUT_S = 900.0
"""How long a run that is ready waits for others that begin with it."""
READ_TIMEOUT_S = 10.0
"""How long the end of a run waits for the target's counters."""


@dataclass
class Edge:
    """What was read at one edge of the measured interval."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    statistics: dict[str, Any] | None = None
    read: bool = False


@dataclass
class Measured:
    """Everything a measurement saw, from which the result is computed."""

    recorder: Recorder
    start: Edge = field(default_factory=Edge)
    end: Edge = field(default_factory=Edge)
    peak_in_flight: int = 0
    energy: EnergyReading | None = None
    energy_reason: str | None = None
    idle_w: float | None = None
    interrupted: str | None = None
    measured_s: float = 0.0
    """How much of the interval has passed: all of it, unless the run was cut short."""


class Measurement:
    """A run from the first check to the last answer.

    `on_request` sees every outcome (for Locust's own statistics), `on_progress` is called about once a second.
    """

    def __init__(
        self,
        config: LoadConfig,
        target: Target,
        *,
        on_request: Callable[[Outcome, str], None],
        on_progress: Callable[[float, Recorder], None],
    ) -> None:
        self.config = config
        self.target = target
        self.golden: Golden | None = config.entry.read_golden()
        self.placement = Placement(None, None, None)
        self._on_request = on_request
        self._on_progress = on_progress
        self._arrivals: OpenLoop | ClosedLoop | None = None
        self._next_progress = 0
        self._interrupted: str | None = None
        self._readers: list[Thread] = []

    def prepare(self) -> Iterator[Payload]:
        """Check the target and make the requests. Raises ServerError, ArtifactError, InputDataError."""
        config = self.config
        self.placement = self.target.prepare()
        if self.golden is not None:
            require_fit(self.golden, config.entry, config.workload.inputs, config.workload.outputs)
        return self.target.payloads(self.golden)

    def run(self, requests: Iterator[Payload]) -> Measured:
        """Drive the load; returns what was seen, also when it was interrupted."""
        config = self.config
        meter, energy_reason = _meter(self.target, self.placement.device)
        idle_w = _idle_power(meter)
        driver = Driver(
            self.target.connect,
            requests,
            timeout_s=config.request_timeout_s,
            max_in_flight=config.max_in_flight if config.open_loop else config.concurrency or 1,
            on_outcome=self._outcome,
            on_tick=self._tick,
        )
        # The schedule is made before the clock starts.
        schedule = config.scenario.schedule(config.seed)
        driver.connect(CONNECT_AHEAD if config.open_loop else config.concurrency or 1)
        start = _start_ns(config.start_file)
        measured_from = start + int(config.warmup_s * 1e9)
        measured_to = measured_from + int(config.duration_s * 1e9)
        # A closed loop's interval holds an answer for each connection, however slow the model is.
        edges = tuple(measured_from + round(edge * 1e9) for edge in config.scenario.window_edges_s)
        interval = Interval(measured_from, measured_to, config.windows, edges)
        self._recorder = Recorder(interval, config.concurrency or 0, driver.backlog.waited)
        self._measured = Measured(self._recorder, idle_w=idle_w, energy_reason=energy_reason)
        self._meter = meter
        self._arrivals = (
            ClosedLoop(config.concurrency or 1, self._recorder.over)
            if schedule is None
            else OpenLoop(schedule, start, measured_to)
        )
        try:
            driver.run(self._arrivals)
        except BaseException as error:
            # Ctrl-C, a kill or a bug: what was measured until now is kept and marked.
            self._interrupted = self._interrupted or f"cut short by {type(error).__name__}"
            try:
                driver.abandon("interrupted", self._interrupted)
            finally:
                self._finish(driver)
            if not isinstance(error, KeyboardInterrupt | GreenletExit):
                raise
        else:
            self._finish(driver)
        return self._measured

    def stop(self, reason: str) -> None:
        """End early: nothing more is sent, the run is marked as cut short."""
        if self._arrivals is not None:
            self._interrupted = reason
            self._arrivals.stop()

    @property
    def measured(self) -> Measured | None:
        """What was seen so far, None before the first request."""
        return self._measured if self._arrivals is not None else None

    def _finish(self, driver: Driver) -> None:
        self._recorder.flush()
        self._edge(self._measured.start)
        self._edge(self._measured.end)
        with contextlib.suppress(GreenletExit):
            for reader in self._readers:
                reader.join(READ_TIMEOUT_S)
        self._measured.peak_in_flight = driver.peak_in_flight
        self._measured.interrupted = self._interrupted
        interval = self._recorder.interval
        self._measured.measured_s = max(min(time.monotonic_ns(), interval.end) - interval.start, 0) / 1e9
        driver.close()

    def _outcome(self, outcome: Outcome) -> None:
        if outcome.error and outcome.response is not None:
            message = outcome.response.message()
            outcome = outcome._replace(message=message, error=failure_kind(outcome.error, message))
        self._recorder.outcome(outcome)
        self._on_request(outcome, outcome.message)

    def _tick(self, now: int) -> None:
        self._recorder.tick(now)
        interval = self._recorder.interval
        if now >= interval.start:
            self._edge(self._measured.start)
        if self._recorder.over(now):
            self._edge(self._measured.end)
        if now >= self._next_progress:
            self._next_progress = now + 1_000_000_000
            self._on_progress((now - interval.start) / 1e9, self._recorder)
        # Locust has replaced this by its own: other greenlets (its web UI, heartbeats) get their turn.
        time.sleep(0)

    def _edge(self, edge: Edge) -> None:
        """Read the counters once; the target's in a thread (under Locust: a greenlet), so that the schedule goes on."""
        if edge.read:
            return
        edge.read = True
        # Of this thread, which is the generator: an engine in this process computes in others.
        edge.cpu_s, edge.wall_s = time.thread_time(), time.monotonic()
        measured = self._measured
        if self._meter is not None:
            if edge is measured.start:
                self._meter.start()
            else:
                measured.energy = self._meter.stop()

        def read() -> None:
            edge.statistics = self.target.statistics()

        reader = Thread(target=read, daemon=True)
        reader.start()
        self._readers.append(reader)


def _start_ns(file: Path | None) -> int:
    """When the schedule begins: soon, or at the time that its caller writes when all of several runs are ready."""
    if file is None:
        return time.monotonic_ns() + int(START_IN_S * 1e9)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not file.exists():
        if time.monotonic() > deadline:
            raise ServerError(f"{file} did not come within {START_TIMEOUT_S:g} s: the caller has not begun the run")
        time.sleep(0.01)
    return int(file.read_text())


def _meter(target: Target, device: str | None) -> tuple[Meter | None, str | None]:
    """The meter of the device that computes, or why there is none."""
    if not target.local:
        return None, "the server runs on another machine, which cannot be metered from here"
    return open_meter(BOUNDARY_OF_DEVICE[(device or "cpu").partition(":")[0]])


def _idle_power(meter: Meter | None) -> float | None:
    if meter is None:
        return None
    meter.start()
    time.sleep(IDLE_S)
    return meter.stop().average_w
