"""Sends a run's load, or one process's share of it, and records what becomes of each request."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

import gevent
import numpy as np
import numpy.typing as npt
from gevent import GreenletExit
from gevent.monkey import is_module_patched

from loadgen.driver.connections import Connections
from loadgen.driver.event_loop import Driver
from loadgen.driver.machine_settings import CpuLatency, SendersPriority
from loadgen.driver.observers import Failures, LabelledAnswers, RequestLog, Stamps, TimedConnections, Tracing
from loadgen.load.arrivals import ALL, ClosedLoopArrivals, OpenLoopArrivals, Share, closed_loop, start_time
from loadgen.load.load_config import LoadConfig
from loadgen.load.warm_up import WarmUp, WarmUpOutcome
from loadgen.measurement.interval_edges import Boundaries, CpuTime
from loadgen.measurement.output_agreement import check
from loadgen.measurement.probe import require_answer
from loadgen.measurement.recorder import FLUSH_NS, Recorder
from loadgen.measurement.windows import Interval, Pauses, Traffic, interval_from, scheduled_by
from loadgen.sut.channel import Outcome, Payload, numbered
from loadgen.sut.target import Target
from loadgen.variants.cancellation import Cancellation, CancellationRecorder, ToCancel
from loadgen.variants.decoupled import AnswerRecorder
from loadgen.variants.sequences import SequenceRecorder
from loadgen.variants.servers import RoundRobin, ServerRecorder
from servemark import interrupts
from servemark.figures.value import Value
from servemark.machine.scheduling import GrantedPriority
from servemark.repository.entry import Golden
from servemark.results.schema.run import Worker
from servemark.telemetry.metrics.catalog import Span
from servemark.workload.golden_check import GoldenCheck

CONNECT_AHEAD = 64
"""Channels that an open loop opens ahead; it opens more when they are all busy."""
AHEAD_NS = 100_000_000
"""A warm-up is ended so long ahead, for the schedule to be moved."""

FOREMOST = 2
"""libev's highest priority: sockets are asked in each turn, and the schedule goes on before they are served."""

OnTick = Callable[[int], None]


class Statistics(Protocol):
    """Statistics of somebody else, such as Locust, which are told of the requests."""

    def good(self, times: npt.NDArray[np.int64]) -> None:
        """Take rows of the times of right answers, about every 50 ms."""

    def failed(self, outcome: Outcome, words: str) -> None:
        """Take a failed request, with words for the first ones of each kind."""


class Sender:
    """One process's load: it is prepared, and started.

    `statistics` are somebody else's, which are told what becomes of the requests.
    """

    several = False

    def __init__(
        self, config: LoadConfig, target: Target, *, statistics: Statistics | None = None, share: Share = ALL
    ) -> None:
        self.config, self.target, self.share, self.statistics = config, target, share, statistics
        traced = config.live.otlp_sample
        self.tracing = Tracing(traced) if traced else None
        given = config.limits.request_cancellation
        self.cancellation = Cancellation(*given, f"{config.seed} cancelled") if given else None
        self.priority = SendersPriority(config.limits.sender_priority, open_loop=config.open_loop)
        self.cpu_latency = CpuLatency(config.limits.cpu_latency_qos, power_command=config.power is not None)
        self.golden: Golden | None = None
        self.requests: Iterator[Payload] = iter(())
        self.schedule: npt.NDArray[np.int64] | None = None
        """The whole one in ns, of which this share is a part; None for a closed loop."""
        self.probed = 0
        """Requests that were sent before the load."""

    def prepare(self, golden: Golden | None) -> None:
        """Make the requests and the schedule; opens nothing. Raises OptionError, InputDataError, ServerError."""
        self.priority.require()
        self.cpu_latency.require(self.target)
        requests = self.share.requests(self.target.payloads(golden))
        if not self.config.server.cold_start:  # its first request belongs to the load
            requests, self.probed = require_answer(self.target, requests, self.config, _wait_politely)
        if self.tracing is not None:
            requests = self.tracing.requests(requests)
        if self.cancellation is not None:
            requests = self.cancellation.requests(requests)
        if self.config.live.explain:
            requests = numbered(requests)
        self.golden, self.requests, self.schedule = golden, requests, self.config.scenario.schedule(self.config.seed)

    def start(self, directory: Path) -> "ActiveLoad":
        """Open and begin soon, or when --start-file says, for a process that waits for no other."""
        connections = self.open()
        return ActiveLoad(self, connections, start_time(self.config.start_file), directory)

    def open(self) -> Connections:
        """Open connections ahead, in the thread that will send."""
        config = self.config
        most = self.share.count(config.most_in_flight)
        connect, servers = self.target.connect, len(config.urls)
        kind = TimedConnections if config.live.explain else Connections
        connections = (
            RoundRobin(connect, most, servers)
            if servers > 1
            else kind(connect, most, in_turn=config.server.sequence_length is not None)
        )
        if not config.server.no_connection_reuse:
            connections.open_ahead(CONNECT_AHEAD if config.open_loop else most)
        return connections


class ActiveLoad:
    """One process's load on its way, from the first request to the last answer, by a schedule that begins at `start`.

    A process that sends alone has the result's `directory`, for what is kept of each request. It decides when its
    warm-up is over, and that the interval of a closed loop holds one outcome for each connection, however slow the
    model is. Of several processes the master decides both.
    """

    def __init__(self, sender: Sender, connections: Connections, start: int, directory: Path | None = None) -> None:
        config = sender.config
        interval, alone = interval_from(config, start), directory is not None
        self.config, self._sender, self._connections, self._alone = config, sender, connections, alone
        self._cpu = CpuTime()
        self._boundaries = Boundaries(self._cpu)
        self._failures, self._pauses = Failures(config.access), Pauses()
        self.interrupted: str | None = None
        self.warm_up = WarmUp(start, config.warmup_s) if config.scenario.auto_warmup else None
        self.warmed: WarmUpOutcome | None = None
        self.workers: list[Worker] = []
        """None: this process sends all of it."""
        self._next_look = 0
        self.labelled = LabelledAnswers(lambda: self.interval.start) if config.quality else None
        self._log: RequestLog | None = None
        self._stamps: Stamps | None = None
        if directory is not None:
            self._log = RequestLog(directory, interval.start) if config.live.request_log else None
            self._stamps = Stamps(directory, connections) if isinstance(connections, TimedConnections) else None
        least = config.concurrency or 0 if alone or config.open_loop else float("inf")
        self.recorder = Recorder(interval, least, self._waited, self.warm_up)
        self.recorder.outside = sender.probed
        length, most = config.server.sequence_length, config.most_in_flight
        self.recorder.sequences = SequenceRecorder(length, most) if length else None
        self.recorder.answers = AnswerRecorder() if sender.target.decoupled else None
        self.recorder.servers = ServerRecorder(config.urls) if len(config.urls) > 1 else None
        self.recorder.connection_times = sender.target.connection_times
        self.recorder.clock = sender.target.clock
        self.recorder.cancelled = CancellationRecorder() if sender.cancellation else None
        if sender.statistics is not None:
            self.recorder.on_counted = sender.statistics.good
        # Of what becomes of a request, after it was recorded; a log has those that were given up, too.
        observers = (self._log, self._stamps, sender.tracing, self.labelled)
        recorders = (self.recorder.sequences, self.recorder.answers, self.recorder.servers)
        self._observe = [each.take for each in (*observers, *recorders) if each is not None]
        self._driver = Driver(
            connections,
            sender.requests,
            timeout_s=config.limits.request_timeout_s,
            on_outcome=self._outcome,
            on_good=self.recorder.on_good if self._log is None and self.recorder.answers is None else None,
        )
        self._arrivals: OpenLoopArrivals | ClosedLoopArrivals = (
            closed_loop(config.users(sender.share), self.recorder.is_over, start)
            if sender.schedule is None
            else OpenLoopArrivals(sender.share.arrivals(sender.schedule).tolist(), start, interval.end)
        )

    def _waited(self, scheduled: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell which of some requests have waited for a connection."""
        return self._driver.backlog.waited(scheduled)

    def run(self, on_tick: OnTick) -> None:
        """Send until every request has its outcome; `on_tick` is called about every 5 ms.

        Where Ctrl-C or a kill cuts it short, requests in flight fail as `interrupted` and what was seen is kept.
        """
        try:
            with self._sender.cpu_latency, self._sender.priority:
                self._driver.run(self._arrivals, partial(self._tick, on_tick))
        except BaseException as error:
            # Ctrl-C, a kill or a bug: what was measured until now is kept and marked.
            self.interrupted = self.interrupted or interrupts.cut_short_by(error)
            self._driver.abandon("interrupted", self.interrupted)
            if not isinstance(error, KeyboardInterrupt | GreenletExit):
                raise
        finally:
            if time.monotonic_ns() >= self.interval.start:
                self._boundaries.finish()
            self.recorder.flush()
            if self._log is not None:
                self._log.close()
            if self._stamps is not None:
                self._stamps.write(self.interval.start, self.interval.end)
            self._connections.close()

    def stop(self, reason: str) -> None:
        """Send nothing more, not even what waits; the run is marked as cut short."""
        self.interrupted = reason
        self._arrivals.stop()
        self._driver.abandon_waiting("interrupted", reason)

    def begin_interval(self, start_ns: int) -> None:
        """End the warm-up at a time to come, before its bound: the measured schedule begins then, as it is."""
        if start_ns < self.interval.start and self.interrupted is None:
            self._driver.pass_over(*self._arrivals.cut(start_ns, self.interval.start))
            self.recorder.begin_at(start_ns)
            if self._log is not None:
                self._log.origin = start_ns

    @property
    def waiting_since(self) -> int | None:
        """When the oldest request without an outcome was due."""
        return self._driver.waiting_since

    def is_over(self, now: int) -> bool:
        return self.recorder.is_over(now)

    @property
    def interval(self) -> Interval:
        return self.recorder.interval

    @property
    def peak_in_flight(self) -> int:
        return self._driver.peak_in_flight

    def traffic(self, now: int) -> Traffic:
        """The requests that are due, sent and on their way; counts what has been gathered first."""
        self.recorder.flush()
        interval, driver = self.interval, self._driver
        apart = self.recorder.cancelled.requests if self.recorder.cancelled is not None else 0
        sent = self.recorder.scheduled - self.recorder.unsent + apart + driver.sent_since(interval.start)
        schedule, warmup_s = self._sender.schedule, self.config.warmup_s
        scheduled = sent if schedule is None else scheduled_by(now, schedule, warmup_s, interval)
        return Traffic(scheduled, sent, driver.in_flight, len(driver.backlog))

    def spans(self) -> list[Span]:
        return self._sender.tracing.taken() if self._sender.tracing else []

    @property
    def cpu_utilization(self) -> float | None:
        """Share of one core that this thread has used in the interval; an engine in this process computes in others."""
        return self._cpu.share

    @property
    def granted(self) -> GrantedPriority:
        return self._sender.priority.granted

    @property
    def cpu_latency(self) -> Value:
        return self._sender.cpu_latency.figure

    def checked(self) -> GoldenCheck | None:
        if self._sender.golden is None:
            return None
        workload, limits = self.config.workload, self.config.workload.agreement.at(self.config.precision)
        return check(self.recorder.sampled, self._sender.golden, workload.outputs, limits)

    def _outcome(self, outcome: Outcome) -> None:
        if self.recorder.cancelled is not None and type(outcome.payload) is ToCancel:
            self.recorder.cancelled.take(outcome)
            if self._log is not None:
                self._log.take(outcome)
            return
        if outcome.error:
            outcome, words = self._failures.named(outcome)
            if self._sender.statistics is not None:
                self._sender.statistics.failed(outcome, words)
        self.recorder.outcome(outcome)
        for take in self._observe:
            take(outcome)

    def _tick(self, on_tick: OnTick, now: int) -> None:
        self._pauses.begin(now, self.interval)
        self.recorder.tick(now, self._arrivals.next_due())
        if self._sender.cancellation is not None:
            self._sender.cancellation.act(self._driver, now)
        self._sender.priority.watch()
        if self.warm_up is not None and self.warmed is None and self._alone:
            self._warm(self.warm_up, now)
        # Times count from the interval's start, which a warm-up that goes on does not know.
        if self._log is not None and (self.warm_up is None or self.warmed is not None):
            self._log.flush()
        self._boundaries.tick(now, self.interval.start, over=self.is_over(now))
        on_tick(now)
        give_way()
        self._pauses.end(time.monotonic_ns(), self.interval)
        self.recorder.longest_pause_ns = self._pauses.longest_ns

    def _warm(self, warm_up: WarmUp, now: int) -> None:
        """End the warm-up where the latency is steady, or at its bound."""
        if now < self._next_look or self.interrupted is not None:
            return
        self._next_look = now + FLUSH_NS
        if now < self.interval.start and warm_up.is_over(now, self.waiting_since):
            self.begin_interval(now + AHEAD_NS)
            self.warmed = warm_up.found(now, self.waiting_since, self.interval.start)
        elif now >= self.interval.start:
            self.warmed = warm_up.found(now, self.waiting_since, self.interval.start)


def _wait_politely(_now: int) -> None:
    """Wait while a first request is in flight."""
    interrupts.check()
    give_way()


def give_way() -> None:
    """Let Locust's other greenlets (web UI, heartbeats, the reading of the server's counters) have their turn.

    gevent's sleep(0) gives none to those that wait for a socket: its hub goes through 50 such calls before it asks the
    operating system again, so that each step of a conversation would take a quarter of a second.
    """
    if is_module_patched("time"):
        gevent.idle(FOREMOST)
    else:
        time.sleep(0)
