"""Master of a distributed run: the workers send the load, and their records are merged."""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import msgspec
from gevent import GreenletExit
from gevent.event import Event
from locust.runners import STATE_MISSING, MasterRunner

from loadgen.distributed.messages import MESSAGE, Expected, Message, fingerprint, merged
from loadgen.distributed.worker_view import ClockOffset, WorkerView
from loadgen.load.arrivals import Share, start_time
from loadgen.load.load_config import LoadConfig
from loadgen.load.warm_up import WarmUp, WarmUpOutcome
from loadgen.measurement.measurement import worker_name
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.sender import OnTick
from loadgen.measurement.windows import Interval, Traffic, interval_from, scheduled_by
from servemark import interrupts
from servemark.errors import OptionError, WorkerError
from servemark.machine.scheduling import GrantedPriority, least
from servemark.repository.entry import Golden
from servemark.results.schema.run import Worker
from servemark.telemetry.metrics.catalog import Span
from servemark.workload.golden_check import GoldenCheck

READY_TIMEOUT_S = 600.0
"""Time limit of the workers' preparation: serialising the requests of a large model takes minutes."""
START_IN_S = 0.5
"""Time from the order to begin until the schedule begins, in which every worker must read the order."""
PINGS = 10
PING_TIMEOUT_S = 5.0
POLL_S = 0.02
SLACK_NS = 1_000_000_000
"""Maximum time by which a worker's report may be ahead of this process's clock."""
AHEAD_NS = 100_000_000
"""Time by which a closed loop's workers learn the end of their interval in advance."""
GRACE_S = 20.0
"""Time that the workers' last figures may take beyond a request's time-out."""
STOP_TIMEOUT_S = 8.0
"""Time that an interrupted run waits for the workers' last figures."""


class Master:
    """Lets the connected workers send the load; `messages.py` describes their messages."""

    several = True

    def __init__(self, config: LoadConfig, runner: MasterRunner) -> None:
        self.config = config
        self.interrupted: str | None = None
        self.warmed: WarmUpOutcome | None = None
        self._runner = runner
        self._run = uuid4().hex
        clients = [*runner.clients.ready, *runner.clients.spawning, *runner.clients.running]
        ids = sorted((client.id for client in clients), key=runner.get_worker_index)
        self._workers = {name: WorkerView(name, index) for index, name in enumerate(ids)}
        self._golden: Golden | None = None
        self._planned: Interval | None = None
        """The interval as it was to be; None until the schedule begins."""
        self._stale = self._prepared = False
        self._final: list[Worker] | None = None
        """The workers' figures, worked out once all have ended; None until then."""
        self._decided = config.open_loop
        self._heard = Event()
        if config.open_loop and config.limits.max_in_flight < len(ids):
            raise OptionError(
                f"--max-in-flight {config.limits.max_in_flight} is less than one for each of {len(ids)} workers",
                fix=f"--max-in-flight {len(ids)}, or fewer workers",
            )
        of_one_process = {
            "--request-log": config.live.request_log,
            "--otlp-sample": bool(config.live.otlp_sample),
            "--sequence-length": bool(config.server.sequence_length),
            "--url with several servers": len(config.urls) > 1,
            "--request-cancellation": config.limits.request_cancellation is not None,
            "--no-connection-reuse": config.server.no_connection_reuse,
            "--request-compression": config.server.request_compression != "none",
            "--response-compression": config.server.response_compression != "none",
        }
        if given := [flag for flag, is_given in of_one_process.items() if is_given]:
            raise OptionError(f"{given[0]} is for one process", fix="leave it out, or the other processes")

    def on_message(self, name: str, message: Message) -> None:
        """Take a worker's message; those of earlier runs, and after the end, are passed over."""
        worker = self._workers.get(name)
        if worker is None or self._final is not None:
            return
        if isinstance(message, dict) and message.get("run") not in {self._run, ""}:
            return
        now = time.monotonic_ns()
        worker.on_message(message, now, self._expected(now))
        self._stale |= worker.dropped or message["kind"] == "state"
        if not worker.dropped and message["kind"] == "join" and self._prepared:
            self._invite(worker)
        self._heard.set()

    def _expected(self, now: int) -> Expected | None:
        """Give the bounds of a report that comes now; None before the schedule begins."""
        if self._planned is None:
            return None
        interval, golden = self._planned, self._golden
        elapsed_ns = max(now - self._interval.start, 0) + SLACK_NS
        return Expected(
            # A prolonged interval goes on in windows that are twice as long, so it ends at most that far ahead.
            longest_ns=max(interval.end - interval.start, 2 * elapsed_ns),
            windows=interval.windows,
            seconds=self._recorder.seconds.count if self._recorder.seconds is not None else None,
            warm_up_windows=self._warm_up.windows if self._warm_up is not None else None,
            outputs=[tensor.name for tensor in self.config.workload.outputs] if golden else (),
            samples=golden.rows if golden else 0,
        )

    def prepare(self, golden: Golden | None) -> None:
        """Let every worker prepare its share, while this process goes on. Raises WorkerError if there is no worker."""
        if not self._workers:
            raise WorkerError("no worker is connected", fix="locust -f LOCUSTFILE --worker --master-host HOST")
        self._golden, self._prepared = golden, True
        for worker in self._workers.values():
            if worker.token is not None:
                self._invite(worker)

    def start(self, directory: Path) -> Self:  # noqa: ARG002 - a request log is a sender's
        """Wait until every worker is ready, and tell each when to begin. Raises WorkerError with a worker's message."""
        self._await_ready()
        self._begin()
        return self

    def _await_ready(self) -> None:
        schedule = self._schedule = self.config.scenario.schedule(self.config.seed)
        ours = fingerprint(self.config, schedule, self._golden)
        self._wait(lambda worker: worker.fingerprint is not None, READY_TIMEOUT_S, "be ready")
        for worker in self._trusted():
            theirs = worker.fingerprint or {}
            other = [name for name, value in ours.items() if theirs.get(name) != value]
            if other:
                raise WorkerError(f"{worker} has another {other[0]}", fix="install and copy the same on every host")

    def _begin(self) -> None:
        """Estimate the workers' clocks, and tell each when the schedule begins."""
        for count in range(1, PINGS + 1):
            for worker in self._trusted():
                self._order(worker, "ping", sent_ns=time.monotonic_ns())
            self._wait(functools.partial(_answered, count), PING_TIMEOUT_S, "answer")
        start = start_time(self.config.start_file, START_IN_S)
        self._interval = interval_from(self.config, start)
        self._warm_up = WarmUp(start, self.config.warmup_s) if self.config.scenario.auto_warmup else None
        self._warm_known: tuple[int, int | None] = (start, None)
        """Time until which all workers' warm-up is known, and start of their oldest waiting request."""
        self._recorder = Recorder(self._interval)
        self._planned = self._interval
        for worker in self._trusted():
            worker.clock = ClockOffset.estimate(worker.trips)
            self._order(worker, "begin", start_ns=worker.clock.theirs(start))

    def run(self, on_tick: OnTick) -> None:
        """Follow the workers until each has sent its last figures, or will not."""
        try:
            while not self._ended(now := time.monotonic_ns()):
                self._warm(now)
                self._decide(now)
                for worker in self._workers.values():
                    worker.watch(self._absence(worker), now / 1e9)
                on_tick(now)
                self._heard.wait(POLL_S)
                self._heard.clear()
        except BaseException as error:
            self.stop(self.interrupted or interrupts.cut_short_by(error))
            self._collect()
            if not isinstance(error, KeyboardInterrupt | GreenletExit):
                raise
        for worker in self._workers.values():
            if not worker.final:
                worker.mark_failed(self._absence(worker) or "it did not send its last figures")
            elif worker.ended_early and not self.interrupted:
                worker.mark_failed(f"it ended early: {worker.ended_early}")
        self._final = self.workers

    def stop(self, reason: str) -> None:
        self.interrupted = reason
        for worker in self._workers.values():
            self._order(worker, "stop", reason=reason)

    def is_over(self, now: int) -> bool:
        return self._decided and now >= self._interval.end

    @property
    def interval(self) -> Interval:
        return self._interval

    @property
    def recorder(self) -> Recorder:
        if self._stale:
            self._stale = False
            states = [worker.state for worker in self._workers.values()]
            self._recorder = merged(self._interval, [state for state in states if state])
        return self._recorder

    def traffic(self, now: int) -> Traffic:
        schedule, warmup_s = self._schedule, self.config.warmup_s
        scheduled = None if schedule is None else scheduled_by(now, schedule, warmup_s, self._interval)
        reports = [worker.report["traffic"] for worker in self._workers.values() if worker.report]
        return Traffic.of_workers(reports, scheduled)

    def spans(self) -> list[Span]:
        return []

    @property
    def peak_in_flight(self) -> int:
        """Return the sum of the workers' peaks, which may have come at different times."""
        return sum(worker["max_in_flight"] for worker in self.workers)

    @property
    def cpu_utilization(self) -> float | None:
        return max((used for each in self.workers if (used := each["cpu_utilization"]) is not None), default=None)

    @property
    def granted(self) -> GrantedPriority:
        return least((worker_name(each), each["priority"], each["priority_note"]) for each in self.workers)

    cpu_latency = None
    """Each worker asks on its own machine."""

    @property
    def workers(self) -> list[Worker]:
        return [worker.figures for worker in self._workers.values()] if self._final is None else self._final

    labelled = None
    """Workers keep no answers."""

    def checked(self) -> GoldenCheck | None:
        if not self._golden:
            return None
        parts = [worker.report["checked"] for worker in self._workers.values() if worker.report]
        return GoldenCheck.joined([GoldenCheck(**part) for part in parts if part])

    def _invite(self, worker: WorkerView) -> None:
        """Answer a worker that asks for its part."""
        share = {"index": worker.index, "of": len(self._workers)}
        asked = {"request": msgspec.json.encode(self.config.request).decode(), "address": self.config.address}
        self._order(worker, "prepare", **share, **asked, token=worker.token, golden=self._golden is not None)

    def _order(self, worker: WorkerView, kind: str, **content: Any) -> None:
        self._runner.send_message(MESSAGE, {"run": self._run, "kind": kind, **content}, worker.id)

    def _absence(self, worker: WorkerView) -> str | None:
        """Return the reason why Locust has lost a worker, None if it has not."""
        client = self._runner.clients.get(worker.id)
        if client is None:
            return "it quit"
        return "it was lost: no heartbeat came from it" if client.state == STATE_MISSING else None

    def _wait(self, done: Callable[[WorkerView], bool], timeout_s: float, what: str) -> None:
        """Wait until every worker is `done`. Raises WorkerError if one fails, is lost, or takes too long."""
        deadline = time.monotonic() + timeout_s
        while waiting := [worker for worker in self._trusted() if not done(worker)]:
            for worker in self._trusted():
                absence = self._absence(worker)
                if worker.failure is not None:
                    raise worker.failure
                if absence:
                    raise WorkerError(f"{worker}: {absence} before the run began", fix="read its log")
            interrupts.check()
            if time.monotonic() > deadline:
                raise WorkerError(f"{waiting[0]} did not {what} within {timeout_s:g} s", fix="read its log")
            self._heard.wait(POLL_S)
            self._heard.clear()

    def _trusted(self) -> list[WorkerView]:
        """List the workers whose messages are read. Raises WorkerError if none is left."""
        trusted = [worker for worker in self._workers.values() if not worker.dropped]
        if not trusted:
            first = next(iter(self._workers.values()))
            raise WorkerError(f"{first}: {first.trouble}", fix="start it with `locust --worker` of this version")
        return trusted

    def _warm(self, now: int) -> None:
        """End the warm-up of all workers at one time, if their latency is steady, or at its bound."""
        if self._warm_up is None or self.warmed is not None or self.interrupted is not None:
            return
        packed = [w.report["warm_up"] if w.report else None for w in self._workers.values() if not w.gone]
        if packed and all(packed):
            self._warm_known = self._warm_up.merge([each for each in packed if each])
        known, waiting_since = self._warm_known
        start = now + int(START_IN_S * 1e9)
        if start < self._interval.start and self._warm_up.is_over(known, waiting_since):
            self._interval, self._stale = self._interval.begun_at(start), True
            for worker in self._workers.values():
                self._order(worker, "measure", start_ns=worker.clock.theirs(start))
        elif now < self._interval.start:
            return
        self.warmed = self._warm_up.found(known, waiting_since, self._interval.start)

    def _decide(self, now: int) -> None:
        """End a closed loop's interval when each connection has its answer: until then the duration is a minimum."""
        if self._decided:
            return
        here = [worker for worker in self._workers.values() if not worker.gone]
        outcomes = sum(int(worker.state["scheduled"]) for worker in here if worker.state)
        shares = [Share(worker.index, len(self._workers)) for worker in here]
        if outcomes < sum(share.count(self.config.concurrency or 1) for share in shares):
            return
        while self._interval.end < now + AHEAD_NS:
            self._interval = self._interval.prolonged
        self._decided = self._stale = True
        for worker in here:
            self._order(worker, "end", length_ns=self._interval.end - self._interval.start)

    def _ended(self, now: int) -> bool:
        """Return True if nothing more is to come: each request ends at most two time-outs after its schedule."""
        timeouts = 2 if self._decided else 3
        if now > self._interval.end + int((timeouts * self.config.limits.request_timeout_s + GRACE_S) * 1e9):
            return True
        workers = self._workers.values()
        whole = any(worker.final and not worker.ended_early for worker in workers)
        # A worker whose clock is ahead, by less than its uncertainty, is done before the interval is over here.
        return all(worker.final or worker.gone for worker in workers) and (self.is_over(now) or not whole)

    def _collect(self) -> None:
        """Wait for the last figures of an interrupted run."""
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while time.monotonic() < deadline and not all(
            worker.final or worker.dropped or self._absence(worker) for worker in self._workers.values()
        ):
            self._heard.wait(POLL_S)
            self._heard.clear()


def _answered(count: int, worker: WorkerView) -> bool:
    """Return True if a worker has answered `count` pings."""
    return len(worker.trips) >= count
