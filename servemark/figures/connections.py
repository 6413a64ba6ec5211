"""Figures of connections, compression and cancellation of requests; a run that does not ask for them has none."""

from collections.abc import Callable

from servemark.figures.evidence import Cancellation, ConnectionTimes, Evidence, Volume
from servemark.figures.figure import Distribution, Figure, same, summed
from servemark.figures.value import BYTES, COUNT, MS, Value
from servemark.stats.histogram import Histogram

_NO_REQUEST = "--request-compression was not asked for"
_NO_ANSWER = "--response-compression was not asked for"
_NONE_CAME = "no answer came compressed"


def _dns(evidence: Evidence) -> Value | None:
    if evidence.connections is None:
        return None
    return Value.of(evidence.connections.dns_ms, "the URL has an address, and not a name")


def _part(tag: str, words: str, of: Callable[[ConnectionTimes], Histogram]) -> Distribution:
    """Declare a part of a request that has a connection of its own."""
    return Distribution(tag, words, lambda evidence: of(evidence.connections) if evidence.connections else None)


def _compressed(evidence: Evidence) -> Volume | None:
    return evidence.compression if any(evidence.compressed) else None


def _of_requests(name: str, words: str, of: Callable[[Volume], int]) -> Figure:
    def compute(evidence: Evidence) -> Value | None:
        found = _compressed(evidence)
        return None if found is None else Value.ratio(of(found), found.requests, _NO_REQUEST)

    return Figure(f"compression.{name}", BYTES, words, compute)


def _of_answers(name: str, words: str, of: Callable[[Volume], int]) -> Figure:
    def compute(evidence: Evidence) -> Value | None:
        found = _compressed(evidence)
        reason = _NONE_CAME if evidence.compressed[1] else _NO_ANSWER
        return None if found is None else Value.ratio(of(found), found.answers, reason)

    return Figure(f"compression.{name}", BYTES, words, compute)


def _cancelled(name: str, words: str, of: Callable[[Cancellation], int]) -> Figure:
    return Figure(
        f"cancellation.{name}",
        COUNT,
        words,
        lambda evidence: Value(of(evidence.cancellation)) if evidence.cancellation else None,
        join=summed,
    )


FIGURES = (
    Figure("connection.dns", MS, "Looking up the server's name, once before the run.", _dns, "lower", same),
    _part("connect", "From the beginning of the connection until it is established.", lambda found: found.connect),
    Distribution(
        "tls",
        "The TLS handshake.",
        lambda evidence: evidence.connections.tls if evidence.connections and evidence.secure else None,
        title="TLS handshake",
    ),
    _part("first_byte", "From sending the request to the first bytes of the answer.", lambda found: found.first_byte),
    _part("receive", "From the first bytes of the answer to the last byte.", lambda found: found.receive),
    _of_requests(
        "request_bytes", "Mean size of a request's body, or message, as it was made.", lambda found: found.request_bytes
    ),
    _of_requests("request_sent_bytes", "The same as it travelled.", lambda found: found.sent_bytes),
    Figure(
        "compression.compressed_answers",
        COUNT,
        "Answers that came compressed, those of the warm-up among them.",
        lambda evidence: Value(found.answers) if (found := _compressed(evidence)) else None,
        join=summed,
    ),
    _of_answers(
        "answer_received_bytes", "Mean size of these answers as they came.", lambda found: found.received_bytes
    ),
    _of_answers("answer_bytes", "The same without compression.", lambda found: found.answer_bytes),
    _cancelled(
        "requests",
        "Requests of the interval that were to be given up. They count in no other figure.",
        lambda found: found.requests,
    ),
    _cancelled(
        "cancelled",
        "Those that were given up: the connection was closed (HTTP), or the stream reset (gRPC).",
        lambda found: found.given_up.count,
    ),
    _cancelled("answered", "Those that were answered before.", lambda found: found.answered),
    Distribution(
        "given_up",
        "From sending to giving up.",
        lambda evidence: evidence.cancellation.given_up if evidence.cancellation else None,
        better=None,
    ),
)
