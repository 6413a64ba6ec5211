"""One measurement: checks the target, has the load sent, takes readings at the interval's boundaries."""

import bisect
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

from loadgen.driver.observers import LabelledAnswers
from loadgen.driver.timed_commands import TimedCommands
from loadgen.inputs.sources import golden_of
from loadgen.load.load_config import LoadConfig
from loadgen.load.warm_up import WarmUpOutcome
from loadgen.measurement.interval_edges import Boundaries, Energy, MachineUse, Statistics
from loadgen.measurement.output_agreement import require_fit
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval, Traffic
from loadgen.sut.target import Placement, Target
from servemark import interrupts
from servemark.documents.live import exporters_of, timed_commands_of
from servemark.documents.load import Stages, Trace
from servemark.errors import OptionError
from servemark.figures.server import NONE_EXECUTED, of_model
from servemark.figures.value import Value
from servemark.machine.scheduling import GrantedPriority
from servemark.repository.entry import Golden
from servemark.results.objectives import ERRORS, LATENCY, Objectives, parse_objectives
from servemark.results.schema.details import ServerWindow, StartedCommand
from servemark.results.schema.run import Worker
from servemark.stats.percentiles import allowed_beyond, samples_needed
from servemark.stats.unknown import or_unknown, unknown
from servemark.telemetry.metrics.catalog import Span
from servemark.telemetry.run import RunTelemetry
from servemark.workload.golden_check import GoldenCheck

_NOT_ASKED = "the server's counters were not read when it began or ended"
PROGRESS_NS = 1_000_000_000
FEWEST_TO_ABORT = 20
"""Requests below which a share of errors is not judged."""


class ServerWindows:
    """Reads the counters when a window begins: 0.2 ms of CPU each. One question at a time.

    A target without counters is not asked. An overloaded server may answer late: a window whose counters came more than
    half a window after its boundary has no figures.
    """

    def __init__(self, target: Target, *, available: bool) -> None:
        self._target, self._available = target, available
        self._edges: list[int] = []
        self._readings: dict[int, dict[str, Any]] = {}
        self._asked = -1
        self._reader: Thread | None = None

    def tick(self, now: int, load: "ActiveLoad") -> None:
        """Ask if a window has begun since the last question, and none waits for its answer."""
        if not self._available or now < load.interval.start:
            return
        if not self._edges:
            self._edges = edges_of(load.recorder)
        edge = bisect.bisect_right(self._edges, now) - 1
        if edge > self._asked and (self._reader is None or not self._reader.is_alive()):
            self._asked = edge
            self._reader = Thread(target=self._read, args=(edge,), daemon=True)
            self._reader.start()

    def _read(self, edge: int) -> None:
        found = self._target.statistics()
        first, last = self._edges[max(edge - 1, 0)], self._edges[min(edge + 1, len(self._edges) - 1)]
        late_ns = time.monotonic_ns() - self._edges[edge]
        if found is not None and late_ns <= (last - first) / 4:
            self._readings[edge] = found

    def finish(self, after: dict[str, Any] | None) -> None:
        """Take the counters that were read when the whole interval ended."""
        if after is not None and self._edges:
            self._readings.setdefault(len(self._edges) - 1, after)

    def figures(self, count: int) -> list[ServerWindow | None]:
        """Return the server's figures in each of the first windows, unknown where its counters were not read."""
        return [self._between(index) for index in range(count)]

    def _between(self, index: int) -> ServerWindow | None:
        before, after = self._readings.get(index), self._readings.get(index + 1)
        if before is None or after is None:
            return unknown(_NOT_ASKED if self._available else self._target.no_statistics)
        found = of_model(before, after)
        return {
            "queue_ms": or_unknown(found["server.queue"]["value"], NONE_EXECUTED),
            "compute_infer_ms": or_unknown(found["server.compute_infer"]["value"], NONE_EXECUTED),
            "batch_size_mean": or_unknown(found["server.batch_size"]["value"], NONE_EXECUTED),
        }


def edges_of(recorder: Recorder) -> list[int]:
    """Return the boundaries (ns) of a result's windows, the first and the last included."""
    interval = recorder.interval
    if recorder.seconds is None:
        return [*interval.edges]
    return [*(interval.start + place for place in recorder.seconds.starts_ns), interval.end]


class Load(Protocol):
    """Source of the load: this process (`Sender`), or workers that it coordinates (`Master`)."""

    several: bool
    """True if several processes send the load."""

    def prepare(self, golden: Golden | None) -> None:
        """Make the requests and the schedule. Raises ServemarkError."""

    def start(self, directory: Path) -> "ActiveLoad":
        """Get ready, and set the time at which the schedule begins; `directory` is the result's.

        Nothing slow is left after it. Raises ServemarkError.
        """


class ActiveLoad(Protocol):
    """A load that is on its way."""

    interrupted: str | None
    """Reason why the run was cut short; None if it was not."""
    warmed: WarmUpOutcome | None
    """Result of a warm-up that ends by itself, None until then."""

    @property
    def interval(self) -> Interval:
        """The measured interval, as it is known now."""

    def is_over(self, now: int) -> bool:
        """Return True if the measured interval has passed."""

    def run(self, on_tick: Callable[[int], None]) -> None:
        """Send until every request has its outcome; `on_tick` is called with the time now and then."""

    def stop(self, reason: str) -> None:
        """Send nothing more."""

    @property
    def recorder(self) -> Recorder:
        """Return the recorder of the outcomes so far."""

    def traffic(self, now: int) -> Traffic:
        """The requests that are due, sent and on their way."""

    def spans(self) -> list[Span]:
        """The traced requests that have ended since the last call."""

    @property
    def peak_in_flight(self) -> int:
        """Most requests in flight at one time."""

    @property
    def cpu_utilization(self) -> float | None:
        """Share of one core that the generator used, of several processes the busiest."""

    @property
    def granted(self) -> GrantedPriority:
        """The priority of the sending thread, of several the least."""

    @property
    def cpu_latency(self) -> Value | None:
        """Within which idle cores had to wake up while it sent (us); None if workers asked by themselves."""

    @property
    def workers(self) -> list[Worker]:
        """Each process that sent a share, where there are several."""

    @property
    def labelled(self) -> LabelledAnswers | None:
        """Answers to labelled examples, None where they are not scored."""

    def checked(self) -> GoldenCheck | None:
        """Compare the sampled answers with the golden ones; None if there are none."""


@dataclass
class Measured:
    """Everything a measurement saw, from which the result is computed."""

    load: ActiveLoad
    """The load on its way, and after it."""
    recorder: Recorder
    statistics: Statistics
    energy: Energy
    machine: MachineUse
    checked: GoldenCheck | None = None
    server_windows: ServerWindows | None = None
    """The server's counters in each window; None where the rate does not change."""
    commands: Sequence[StartedCommand] = ()
    """Commands that were run beside the load."""
    measured_s: float = 0.0
    """Length of the interval that has passed: all of it, unless the run was cut short."""

    @property
    def cpu_utilization(self) -> float | None:
        """Share of one core that the generator used in the interval; None where that had not begun."""
        return self.load.cpu_utilization if self.measured_s else None


class Measurement:
    """A run from the first check to the last answer; `on_progress` is called about once a second."""

    def __init__(
        self, config: LoadConfig, target: Target, load: Load, *, on_progress: Callable[[float, Recorder], None]
    ) -> None:
        self.config = config
        self.target = target
        self.load = load
        self.golden: Golden | None = golden_of(config)
        self.placement = Placement(None, None, None)
        self.measured: Measured | None = None
        """Measured figures so far, None before the schedule begins."""
        self.on_second: list[Callable[[int], None]] = []
        """Called about once a second with the time (ns), where somebody follows the run from outside."""
        self.telemetry: RunTelemetry | None = None
        """Readings of the machines, None before the run."""
        self._on_progress = on_progress
        self._abort_on = parse_objectives(config.limits.abort_on, "--abort-on")
        self._next_progress = self._last_tick = 0
        self._over = False

    def prepare(self) -> None:
        """Check the target and prepare the load. Raises ServerError, ArtifactError, InputDataError."""
        config = self.config
        self.placement = self.target.prepare()
        if self.target.decoupled and self.load.several:
            raise OptionError(f"{config.model} is decoupled, which one process can load", fix="leave out the workers")
        if self.golden is not None:
            require_fit(self.golden, config.entry, config.workload.inputs, config.workload.outputs)
        self.load.prepare(self.golden)

    def run(self, directory: Path) -> None:
        """Have the load, which is prepared, sent. `directory` is the result's."""
        config, gpus = self.config, self.placement.gpus if self.target.local else []
        energy = Energy(self.target, self.placement.device, gpus, config.power)
        try:
            self.telemetry = RunTelemetry(
                config.live.sampling_rate_hz,
                gpus=gpus or None,
                meters=[energy.command.meter] if energy.command else [],
                metrics_url=config.metrics_url,
                model=config.model,
                exporters=exporters_of(config.live.scrape),
            )
            self.telemetry.start()
            try:
                self._run(directory, energy)
            finally:
                with interrupts.finishing():
                    self.telemetry.stop()
        finally:
            with interrupts.finishing():
                energy.close()

    def _run(self, directory: Path, energy: Energy) -> None:
        statistics = Statistics(self.target)
        machine = MachineUse(self.target, self._workers_here)
        commands = TimedCommands(timed_commands_of(self.config.live.at))
        try:
            load = self.load.start(directory)
        except BaseException:
            commands.finish()
            raise
        boundaries = Boundaries(statistics, energy, machine)
        measured = self.measured = Measured(load, load.recorder, statistics, energy, machine)
        if isinstance(self.config.scenario.load, Stages | Trace):
            measured.server_windows = ServerWindows(self.target, available=statistics.available)
        try:
            load.run(partial(self._tick, boundaries, measured, commands))
        finally:
            with interrupts.finishing():
                commands.finish()
                measured.commands = commands.ran
                boundaries.finish()
                self._finish(measured)

    def stop(self, reason: str) -> None:
        """End early: nothing more is sent, the run is marked as cut short. One that is over stays whole."""
        if self.measured is not None and not self._over:
            self.measured.load.stop(reason)

    def _finish(self, measured: Measured) -> None:
        load = measured.load
        measured.statistics.wait()
        if measured.server_windows is not None:
            measured.server_windows.finish(measured.statistics.after if load.interrupted is None else None)
        measured.machine.wait()
        measured.recorder, interval = load.recorder, load.interval
        measured.measured_s = max(min(self._last_tick, interval.end) - interval.start, 0) / 1e9
        if not measured.measured_s:
            measured.machine.discard()
        measured.checked = load.checked()
        self._over = True

    def _workers_here(self) -> list[int]:
        """The workers' processes. Raises LookupError where one runs on another machine."""
        workers, here = self.measured.load.workers if self.measured else [], socket.gethostname()
        for worker in workers:
            if worker["host"] != here:
                raise LookupError(f"{worker_name(worker)} runs on another machine, whose cores are not watched")
        return [worker["pid"] for worker in workers]

    def _tick(self, boundaries: Boundaries, measured: Measured, commands: TimedCommands, now: int) -> None:
        load = measured.load
        self._last_tick = now
        interrupts.check()
        boundaries.tick(now, load.interval.start, over=load.is_over(now))
        commands.tick((now - load.interval.start) / 1e9)
        if measured.server_windows is not None:
            measured.server_windows.tick(now, load)
        if now >= self._next_progress:
            self._next_progress = now + PROGRESS_NS
            measured.recorder = load.recorder
            if load.interrupted is None and now >= load.interval.start:
                reason = reason_to_abort(self._abort_on, measured.recorder)
                if reason is not None:
                    load.stop(reason)
            self._on_progress((now - load.interval.start) / 1e9, measured.recorder)
            for follow in self.on_second:
                follow(now)


def worker_name(worker: Worker) -> str:
    """Name a worker for a sentence about it."""
    return f"worker {worker['index']} ({worker['host']}, pid {worker['pid']})"


def reason_to_abort(limits: Objectives, recorder: Recorder) -> str | None:
    """Return the first limit that the measured requests so far break, in words; None if they break none.

    A percentile is judged as an objective is: only as many requests may lie over its limit as that number allows, or
    as the least number does that the percentile needs. Failed requests lie over every limit.
    """
    for limit in limits:
        requests = recorder.scheduled
        if limit.figure == ERRORS:
            failed = recorder.errors.total()
            if requests >= FEWEST_TO_ABORT and failed > limit.limit * requests:
                return f"--abort-on {limit}: {failed:,} of {requests:,} requests failed"
            continue
        times = recorder.latency if limit.figure == LATENCY else recorder.service_time
        over = times.count_above(limit.limit)
        if over > allowed_beyond(limit.percentile, max(requests, samples_needed(limit.percentile))):
            return f"--abort-on {limit}: {over:,} of {requests:,} requests failed or took longer"
    return None
