"""Some requests carry a traceparent, the others are what they were; their spans have the times of their outcomes."""

import itertools
import re
import time

from loadgen.driver.observers import MAX_SPANS, TracedPayload, Tracing
from loadgen.sut.channel import Outcome, Payload
from servemark.telemetry.metrics.catalog import traceparent

REQUEST = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\nbody\r\n\r\n"


def outcome(payload: Payload, sent: int = 2_000) -> Outcome:
    return Outcome(payload, 1_000, sent, 5_000, None, "", None)


def test_one_in_n_requests_has_a_header_of_its_own() -> None:
    plain = Payload(REQUEST, (3,))
    found = list(itertools.islice(Tracing(3).requests(itertools.repeat(plain)), 7))
    assert [isinstance(each, TracedPayload) for each in found] == [True, False, False] * 2 + [True]
    assert all(each is plain for each in found if not isinstance(each, TracedPayload))
    for traced in (each for each in found if isinstance(each, TracedPayload)):
        head, _, body = traced.request.partition(b"\r\n\r\n")
        assert body == b"body\r\n\r\n"
        [value] = re.findall(rb"\r\ntraceparent: (00-[0-9a-f]{32}-[0-9a-f]{16}-01)$", head)
        assert value.decode() == traceparent(traced.trace_id, traced.span_id)
        assert traced.golden_rows == (3,)


def test_the_spans_are_those_of_traced_requests_that_were_sent() -> None:
    tracing, seen = Tracing(1), list[Outcome]()
    [traced] = itertools.islice(tracing.requests(iter([Payload(REQUEST)])), 1)
    see = tracing.seen(lambda outcome, _words: seen.append(outcome))
    outcomes = [outcome(traced), outcome(Payload(REQUEST)), outcome(traced, sent=0)]
    for each in outcomes:
        see(each, "")
    assert seen == outcomes
    [span] = tracing.taken()
    assert (span.sent_ns - span.scheduled_ns, span.done_ns - span.sent_ns) == (1_000, 3_000)
    assert abs(span.done_ns - (time.time_ns() - time.monotonic_ns())) < 10**9
    assert tracing.taken() == []


def test_spans_that_nobody_takes_are_bounded() -> None:
    tracing = Tracing(1)
    [traced] = itertools.islice(tracing.requests(iter([Payload(REQUEST)])), 1)
    see = tracing.seen(lambda *_: None)
    for _ in range(MAX_SPANS + 10):
        see(outcome(traced), "")
    assert len(tracing.taken()) == MAX_SPANS
