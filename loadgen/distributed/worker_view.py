"""One worker of a distributed run, as the master knows it: its reports, and its clock. Imports no Locust."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from loadgen.distributed.messages import Expected, MalformedMessage, Message, State, check_message
from servemark.errors import ExitCode, WorkerError
from servemark.results.schema.run import Worker
from servemark.stats.histogram import Histogram

STALLED_S = 10.0
"""A worker that reports nothing for this time stands still: it should report once a second."""
GONE_S = 2.0
"""A worker that has left may still have its last report on the way."""


class RoundTrip(NamedTuple):
    """A message there and back, in ns: sent and received by our clock, answered by theirs."""

    sent: int
    answered: int
    received: int


@dataclass(frozen=True)
class ClockOffset:
    """Offset to add to our time to get theirs; exact to `uncertainty_ns`, whichever way was slower."""

    offset_ns: int
    uncertainty_ns: int

    @classmethod
    def estimate(cls, trips: Sequence[RoundTrip]) -> "ClockOffset":
        """Take the shortest trip, as NTP does (RFC 5905, section 10): its answer lies half-way, give or take half."""
        sent, answered, received = min(trips, key=lambda trip: trip.received - trip.sent)
        half = (received - sent + 1) // 2
        return cls(answered - (sent + half), half)

    def theirs(self, our_ns: int) -> int:
        """Our time by their clock."""
        return our_ns + self.offset_ns


@dataclass
class WorkerView:
    """Messages and state of a worker; times in seconds and ns of the master's monotonic clock."""

    id: str
    index: int
    host: str = "?"
    pid: int = 0
    token: str | None = None
    """Token with which the worker asks for its part; None until Locust has started it."""
    fingerprint: dict[str, str] | None = None
    """None until it is ready."""
    failure: WorkerError | None = None
    trips: list[RoundTrip] = field(default_factory=list)
    clock: ClockOffset = field(default_factory=lambda: ClockOffset(0, 0))
    report: Message | None = None
    heard_s: float = 0.0
    gone_since_s: float | None = None
    gone: bool = False
    """True if nothing more is to come from the worker."""
    trouble: str | None = None
    dropped: bool = False
    """True if the worker's messages are not read any more."""

    def __str__(self) -> str:
        return f"worker {self.index} ({self.host}, pid {self.pid})" if self.pid else f"worker {self.index} ({self.id})"

    def on_message(self, message: Message, now_ns: int, expected: Expected | None) -> None:
        """Take a message. A malformed one ends this worker's share, but not the run."""
        if self.dropped:
            return
        try:
            check_message(message, expected)
        except MalformedMessage as error:
            self.report, self.dropped, self.gone = None, True, True
            self.mark_failed(f"its share is lost: it sent a message that no worker of servemark sends ({error})")
            return
        self.heard_s = now_ns / 1e9
        match message["kind"]:
            case "join":
                self.token = message["token"]
            case "ready":
                self.host, self.pid, self.fingerprint = message["host"], message["pid"], message["fingerprint"]
            case "failed":
                code = ExitCode(message["exit_code"])
                self.failure = WorkerError(f"{self}: {message['what']}", fix=message["fix"], exit_code=code)
                self.mark_failed(message["what"])
            case "pong":
                self.trips.append(RoundTrip(message["sent_ns"], message["clock_ns"], now_ns))
            case "state" if not self.final:
                self.report = message

    def mark_failed(self, reason: str) -> None:
        """Note why the worker did not send its share; the first reason is the cause of the others."""
        self.trouble = self.trouble or reason

    def watch(self, absence: str | None, now_s: float) -> None:
        """Check the worker while the run goes on; `absence` says why Locust has lost it, None if it has not."""
        if self.final or self.dropped:
            return
        if absence is None:
            self.gone_since_s = None
            if now_s - self.heard_s > STALLED_S:
                self.mark_failed(f"it stood still: it reported nothing for {now_s - self.heard_s:.0f} s")
            self.gone = False
        elif self.gone_since_s is None:
            self.gone_since_s = now_s
        elif now_s - self.gone_since_s > GONE_S:
            self.gone = True
            self.mark_failed(absence)

    @property
    def final(self) -> bool:
        """True if the worker has sent its last figures."""
        return self.report is not None and bool(self.report["final"])

    @property
    def ended_early(self) -> str | None:
        """Reason why the worker stopped before the end; None if it did not report one."""
        reason: str | None = self.report["interrupted"] if self.report else None
        return reason

    @property
    def state(self) -> State | None:
        """State of the worker's recorder at its last report."""
        return self.report["recorder"] if self.report else None

    @property
    def figures(self) -> Worker:
        """Worker's figures in the form of the result."""
        report, state = self.report or {}, self.state
        granted = report.get("granted")
        delay = Histogram.unpack(state["schedule_delay"]) if state else Histogram()
        return {
            "index": self.index,
            "host": self.host,
            "pid": self.pid,
            "requests": state["scheduled"] if state else 0,
            "schedule_delay_p99_ms": delay.percentile(99) if delay.count else None,
            "schedule_delay_p99_ci95_ms": list(delay.independent_interval(99)) if delay.count else None,
            "cpu_utilization": report.get("cpu_utilization"),
            "priority": granted and granted["priority"],
            "priority_note": granted and granted["note"],
            "max_in_flight": report.get("max_in_flight", 0),
            "clock_uncertainty_ms": self.clock.uncertainty_ns / 1e6,
            "trouble": self.trouble,
        }
