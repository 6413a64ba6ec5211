"""Sends a run's load, or one process's share of it, and records what becomes of each request."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import gevent
import numpy as np
import numpy.typing as npt
from gevent import GreenletExit
from gevent.monkey import is_module_patched

from loadgen.driver.event_loop import Driver
from loadgen.driver.priority import SendersPriority
from loadgen.kserve.server_statistics import failure_kind
from loadgen.load.arrivals import ClosedLoopArrivals, OpenLoopArrivals
from loadgen.load.load_config import LoadConfig
from loadgen.load.scenario import Mode
from loadgen.load.share import ALL, Share
from loadgen.measurement.boundary_readings import CpuTime, Reading
from loadgen.measurement.failures import Failures
from loadgen.measurement.output_agreement import Checked, check
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.request_log import RequestLog
from loadgen.measurement.windows import Interval
from loadgen.measurement.worker_figures import WorkerFigures
from loadgen.sut.channel import Outcome
from loadgen.sut.target import Target
from servemark import interrupts
from servemark.errors import ServerError
from servemark.machine.scheduling import Granted
from servemark.output import printable
from servemark.repository.entry import Golden

START_IN_S = 0.05
"""The schedule begins this long after the connections are open."""
CONNECT_AHEAD = 64
"""Channels that an open loop opens ahead; it opens more when they are all busy."""
MAX_WORDS = 500
"""Characters that are kept of what a server says about one failed request."""
START_TIMEOUT_S = 900.0
"""How long a run that is ready waits for others that begin with it."""

FOREMOST = 2
"""libev's highest priority: sockets are asked in each turn, and the schedule goes on before they are served."""

OnRequest = Callable[[Outcome, str], None]
OnTick = Callable[[int], None]


class Sender:
    """One process's load, from its requests to its last answer: `prepare`, `open`, `begin`, `run`, in this order.

    `on_request` sees every outcome, and of each kind of failure the first messages (for Locust's own statistics).
    """

    def __init__(self, config: LoadConfig, target: Target, *, on_request: OnRequest, share: Share = ALL) -> None:
        self.config, self.target, self.share = config, target, share
        self.interrupted: str | None = None
        self.schedule: npt.NDArray[np.int64] | None = None
        """The whole one in ns, of which this share is a part; None for a closed loop."""
        self._on_request = on_request
        self._failures = Failures()
        self._golden: Golden | None = None
        self._log: RequestLog | None = None
        self._cpu = CpuTime()
        self._priority = SendersPriority(config.priority, open_loop=config.open_loop)
        self.readings: Sequence[Reading] = (self._cpu,)

    def prepare(self, golden: Golden | None) -> None:
        """Make the requests and the schedule; opens nothing. Raises OptionError, InputDataError, ServerError."""
        self._priority.require()
        self._golden = golden
        self._requests = self.share.requests(self.target.payloads(golden))
        self.schedule = self.config.scenario.schedule(self.config.seed)

    def open(self, directory: Path | None = None) -> None:
        """Open connections ahead, in the thread that will send; --request-log keeps every request in `directory`."""
        config = self.config
        self._directory = directory if config.request_log else None
        most = config.max_in_flight if config.open_loop else config.concurrency or 1
        self._driver = Driver(
            self.target.connect,
            self._requests,
            timeout_s=config.request_timeout_s,
            max_in_flight=self.share.count(most),
            on_outcome=self._outcome,
            on_tick=self._tick,
        )
        self._driver.connect(CONNECT_AHEAD if config.open_loop else self.share.count(most))

    def begin(self, start_ns: int | None = None, *, least: float | None = None) -> None:
        """Set the time at which the schedule begins: by default soon, or when --start-file says.

        The interval of a closed loop holds `least` outcomes: one for each connection, however slow the model is.
        """
        config = self.config
        start = start_time(config.start_file) if start_ns is None else start_ns
        interval = interval_from(config, start)
        self.recorder = Recorder(
            interval, (config.concurrency or 0) if least is None else least, self._driver.backlog.waited
        )
        if self._directory is not None:
            self._log = RequestLog(self._directory, interval.start)
        self._arrivals: OpenLoopArrivals | ClosedLoopArrivals = (
            ClosedLoopArrivals(self.share.count(config.concurrency or 1), self.recorder.is_over, start)
            if self.schedule is None
            else OpenLoopArrivals(self.share.arrivals(self.schedule).tolist(), start, interval.end)
        )

    def run(self, on_tick: OnTick) -> None:
        """Send until every request has its outcome; `on_tick` is called about every 5 ms.

        Where Ctrl-C or a kill cuts it short, requests in flight fail as `interrupted` and what was seen is kept.
        """
        self._on_tick = on_tick
        try:
            with self._priority:
                self._driver.run(self._arrivals)
        except BaseException as error:
            # Ctrl-C, a kill or a bug: what was measured until now is kept and marked.
            self.interrupted = self.interrupted or f"cut short by {type(error).__name__}"
            self._driver.abandon("interrupted", self.interrupted)
            if not isinstance(error, KeyboardInterrupt | GreenletExit):
                raise
        finally:
            self.recorder.flush()
            if self._log is not None:
                self._log.close()
            self.close()

    def stop(self, reason: str) -> None:
        """Send nothing more; the run is marked as cut short."""
        self.interrupted = reason
        self._arrivals.stop()

    def close(self) -> None:
        """Close the connections."""
        self._driver.close()

    def is_over(self, now: int) -> bool:
        """Whether the measured interval has passed."""
        return self.recorder.is_over(now)

    @property
    def interval(self) -> Interval:
        """The measured interval, as it is known now."""
        return self.recorder.interval

    @property
    def peak_in_flight(self) -> int:
        """Most requests in flight at one time."""
        return self._driver.peak_in_flight

    @property
    def cpu_share(self) -> float | None:
        """Share of one core that this thread has used in the interval; an engine in this process computes in others."""
        return self._cpu.share

    @property
    def granted(self) -> Granted:
        """The priority of the thread that sends."""
        return self._priority.granted

    @property
    def workers(self) -> list[WorkerFigures]:
        """None: this process sent all of it."""
        return []

    def checked(self) -> Checked | None:
        """How the sampled answers agree with the golden ones, None where there are none."""
        if self._golden is None:
            return None
        workload = self.config.workload
        return check(
            self.recorder.sampled, self._golden, workload.outputs, workload.agreement.at(self.config.precision)
        )

    def _outcome(self, outcome: Outcome) -> None:
        words = ""
        if outcome.error:
            said = outcome.message if outcome.response is None else outcome.response.message()
            message = printable(self.config.access.redact(said)[:MAX_WORDS])
            kind = self._failures.kind(failure_kind(outcome.error, message))
            words = self._failures.words(kind, message)
            outcome = outcome._replace(message=message, error=kind)
        self.recorder.outcome(outcome)
        if self._log is not None:
            self._log.take(outcome)
        self._on_request(outcome, words)

    def _tick(self, now: int) -> None:
        self.recorder.tick(now)
        self._priority.watch()
        if self._log is not None:
            self._log.flush()
        self._on_tick(now)
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


def interval_from(config: LoadConfig, start_ns: int) -> Interval:
    """The measured interval of a schedule that begins then."""
    measured_from = start_ns + int(config.warmup_s * 1e9)
    edges = tuple(measured_from + round(edge * 1e9) for edge in config.scenario.window_edges_s)
    by_second = config.scenario.mode is Mode.TRACE
    return Interval(measured_from, measured_from + int(config.duration_s * 1e9), config.windows, edges, by_second)


def start_time(file: Path | None, ahead_s: float = START_IN_S) -> int:
    """When the schedule begins: soon, or at the time that its caller writes when all of several runs are ready."""
    if file is None:
        return time.monotonic_ns() + int(ahead_s * 1e9)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not (file.exists() and (text := file.read_text())):
        if time.monotonic() > deadline:
            raise ServerError(f"{file} did not come within {START_TIMEOUT_S:g} s: the caller has not begun the run")
        interrupts.sleep(0.01)
    return int(text)
