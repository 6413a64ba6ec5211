"""One in N requests carries a W3C `traceparent`, so that a server's trace joins ours; its times are kept as a span."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loadgen.sut.channel import Outcome, Payload
from servemark.telemetry.metrics.snapshot import Span, traceparent

MAX_SPANS = 10_000
"""Spans that are kept until they are taken, which is once a second."""
_HEAD_END = b"\r\n\r\n"


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

    def seen(self, on_request: Callable[[Outcome, str], None]) -> Callable[[Outcome, str], None]:
        """Wrap a handler so that every outcome is seen before `on_request` is called."""

        def see(outcome: Outcome, words: str) -> None:
            if isinstance(outcome.payload, TracedPayload) and outcome.sent and len(self._spans) < MAX_SPANS:
                self._spans.append(_span(outcome, outcome.payload))
            on_request(outcome, words)

        return see

    def taken(self) -> list[Span]:
        """The spans since the last call."""
        spans, self._spans = self._spans, []
        return spans

    def _marked(self, payload: Payload) -> TracedPayload:
        # An id of zeros is none (Trace Context, section 3.2.2).
        trace_id, span_id = self._random.randrange(1, 1 << 128), self._random.randrange(1, 1 << 64)
        head, end, body = payload.request.partition(_HEAD_END)
        field = f"\r\ntraceparent: {traceparent(trace_id, span_id)}".encode()
        return TracedPayload(head + field + end + body, payload.golden_rows, payload.examples, trace_id, span_id)


def _span(outcome: Outcome, payload: TracedPayload) -> Span:
    epoch = time.time_ns() - time.monotonic_ns()
    scheduled, sent, done = (epoch + at for at in (outcome.scheduled, outcome.sent, outcome.done))
    return Span(payload.trace_id, payload.span_id, scheduled, sent, done, outcome.error)
