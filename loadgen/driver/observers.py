"""Observers of each outcome beside the recorder: bounded failures, scored answers, spans, stamps, lines of a log.

A span is of a request that carries a W3C `traceparent`, so that a server's trace joins ours. Stamps are for an
explanation: absolute, as a server's own beside them are.
"""

import contextlib
import os
import random
import re
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from loadgen.driver.connections import Connections
from loadgen.sut.channel import Answer, Channel, NumberedPayload, Outcome, Payload
from loadgen.transport.access import NO_ACCESS, Access
from loadgen.transport.http1_head import HEAD_END
from servemark.errors import ResultError
from servemark.library.arrays import CSV_FILE, HEAD
from servemark.output import note, printable
from servemark.telemetry.metrics.catalog import Span, traceparent

FILE = "stamps.npy"
COLUMNS = ("number", "due", "begun", "sent", "done", "good")
"""Columns of the file: times in ns of the monotonic clock, `good` 1 for a right answer."""
MAX_SPANS = 10_000
"""Spans that are kept until they are taken, which is once a second."""
INTERRUPTED = "interrupted"
MAX_KINDS = 50
"""Kinds whose names hold a number of the server's; what comes beyond them is `other`."""
MAX_MESSAGES = 5
"""Maximum number of different messages kept of each kind of error."""
MAX_WORDS = 500
"""Characters that are kept of what a server says about one failed request."""
OTHER = "other"
_NUMBERED = re.compile("(http|grpc_status)_[0-9]+")
BACKEND_DIED = "backend_died"
"""The kind of failure where the process that runs the model is gone, which Triton 2.51 never starts again."""
_STUB_DIED = re.compile(r"Stub process '.*' is not healthy")


class Failures:
    """The kinds and messages of failures that were seen in one run; both bounded, whatever a server answers.

    Secrets of `access` are taken out of the messages.
    """

    def __init__(self, access: Access = NO_ACCESS) -> None:
        self._access = access
        self._numbered: set[str] = set()
        self._messages: dict[str, set[str]] = {}

    def named(self, outcome: Outcome) -> tuple[Outcome, str]:
        """A failed request's outcome with kind and message as they are kept; and the message, if it is to be told.

        A dead backend answers as any error does: only the words tell it.
        """
        message = printable(self._access.redact(outcome.words())[:MAX_WORDS])
        kind = BACKEND_DIED if _STUB_DIED.search(message) else self.kind(str(outcome.error or ""))
        return outcome._replace(message=message, error=kind), self.words(kind, message)

    def kind(self, kind: str) -> str:
        """The kind as it is counted."""
        if _NUMBERED.fullmatch(kind) and kind not in self._numbered:
            if len(self._numbered) == MAX_KINDS:
                return OTHER
            self._numbered.add(kind)
        return kind

    def words(self, kind: str, message: str) -> str:
        """The message, if it is one of the first that its kind came with; "" otherwise."""
        known = self._messages.setdefault(kind, set())
        if len(known) < MAX_MESSAGES:
            known.add(message)
        return message if message in known else ""


@dataclass(frozen=True, slots=True)
class TracedPayload(Payload):
    """A request over HTTP with the header, and its ids."""

    trace_id: int = 0
    span_id: int = 0


class Tracing:
    """Marks one in `every` requests, from the first on, and keeps the spans of those that were sent."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._random = random.SystemRandom()
        self._spans: list[Span] = []

    def requests(self, whole: Iterator[Payload]) -> Iterator[Payload]:
        """The same requests, some of them marked."""
        for number, payload in enumerate(whole):
            yield payload if number % self._every else self._marked(payload)

    def take(self, outcome: Outcome) -> None:
        """Keep the span of an outcome that has one."""
        if isinstance(outcome.payload, TracedPayload) and outcome.sent and len(self._spans) < MAX_SPANS:
            self._spans.append(_span(outcome, outcome.payload))

    def taken(self) -> list[Span]:
        """The spans since the last call."""
        spans, self._spans = self._spans, []
        return spans

    def _marked(self, payload: Payload) -> TracedPayload:
        # An id of zeros is none (Trace Context, section 3.2.2).
        trace_id, span_id = self._random.randrange(1, 1 << 128), self._random.randrange(1, 1 << 64)
        head, end, body = payload.request.partition(HEAD_END)
        field = f"\r\ntraceparent: {traceparent(trace_id, span_id)}".encode()
        return TracedPayload(head + field + end + body, payload.golden_rows, payload.examples, trace_id, span_id)


def _span(outcome: Outcome, payload: TracedPayload) -> Span:
    epoch = time.time_ns() - time.monotonic_ns()
    scheduled, sent, done = (epoch + at for at in (outcome.scheduled, outcome.sent, outcome.done))
    return Span(payload.trace_id, payload.span_id, scheduled, sent, done, outcome.error)


class Kept(NamedTuple):
    """An answer, and which of its rows is the example's; `error` where the request failed."""

    answer: Answer | None
    row: int
    error: str | None


@dataclass
class LabelledAnswers:
    """Answers by the numbers of their examples.

    One of each: an example that is sent again and again tells no more, and memory stays bounded by the requests that
    were made ahead.
    """

    interval_start: Callable[[], int]
    """Tells when the measured interval begins, as it is known now: what was scheduled before is passed over."""
    kept: dict[int, Kept] = field(default_factory=dict)

    def take(self, outcome: Outcome) -> None:
        """Keep the answer to each example that has none yet."""
        examples = outcome.payload.examples
        if examples and outcome.scheduled >= self.interval_start() and outcome.error != INTERRUPTED:
            for row, example in enumerate(examples):
                if example not in self.kept:
                    self.kept[example] = Kept(outcome.response, row, outcome.error)


class TimedConnections(Connections):
    """Connections that note when one was begun for a request."""

    def __init__(self, connect: Callable[[], Channel], most: int, *, in_turn: bool = False) -> None:
        super().__init__(connect, most, in_turn=in_turn)
        self.begun: dict[int, int] = {}
        """Schedule of a request without an outcome -> when its connection was begun."""

    def open(self, channel: Channel) -> None:
        if channel.payload is not None:
            self.begun[channel.scheduled] = time.monotonic_ns()
        super().open(channel)


class Stamps:
    """Keeps every outcome's stamps in memory, 48 bytes each, and writes those of the measured interval at the end."""

    def __init__(self, directory: Path, connections: TimedConnections) -> None:
        self._path, self._begun = directory / FILE, connections.begun
        self._kept = array("q")

    def take(self, outcome: Outcome) -> None:
        """Keep the stamps of an outcome."""
        payload, due, sent, done, error = outcome[:5]
        if isinstance(payload, NumberedPayload):
            begun = self._begun.pop(due, sent)
            self._kept.extend((payload.number, due, min(begun, sent), sent, done, error is None))

    def write(self, start: int, end: int) -> None:
        """Write the requests that were due in an interval (ns). A disk that is full costs the explanation alone."""
        rows = np.array(self._kept, dtype=np.int64).reshape(-1, len(COLUMNS))
        with contextlib.suppress(OSError):
            np.save(self._path, rows[(rows[:, 1] >= start) & (rows[:, 1] < end)])


class RequestLog:
    """A line for each request, in the order of their outcomes, those of the warm-up too.

    Times are in ns from the start of the measured interval; `sent_ns` is empty where the request never went out,
    `error` where it succeeded. The file has its name when it is complete: a disk that fills up during a run
    costs the log, and not the run.
    """

    def __init__(self, directory: Path, origin_ns: int) -> None:
        self._path, self.origin = directory / CSV_FILE, origin_ns
        self._unfinished = directory / f".{CSV_FILE}.{os.getpid()}"
        self._rows: list[tuple[int, int, int, str | None]] = []
        try:
            self._file = self._unfinished.open("w")
        except OSError as error:
            raise ResultError(
                f"{self._path} cannot be written: {error.strerror}", fix="give a directory with room: --out DIR"
            ) from error
        self._file.write(f"{','.join(HEAD)}\n")

    def take(self, outcome: Outcome) -> None:
        """Keep one outcome; the hot path."""
        self._rows.append(outcome[1:5])

    def flush(self) -> None:
        """Write what was taken."""
        rows, origin = len(self._rows), self.origin
        text = "".join(
            f"{scheduled - origin},{sent - origin if sent else ''},{done - origin},{error or ''}\n"
            for scheduled, sent, done, error in self._rows
        )
        del self._rows[:rows]
        if text and not self._file.closed:
            try:
                self._file.write(text)
            except OSError as error:
                self._give_up(error)

    def close(self) -> None:
        """Write the rest, and give the file its name."""
        self.flush()
        if self._file.closed:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._unfinished.replace(self._path)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        note(f"no {CSV_FILE}: {error.strerror}")
        with contextlib.suppress(OSError):
            # What it still holds cannot be written either.
            self._file.close()
        self._unfinished.unlink(missing_ok=True)
