"""Figures of connections, compression and cancellation of requests; a run that does not ask for them has none."""

from collections.abc import Callable

from servemark.figures.evidence import Compression, Evidence
from servemark.figures.figure import Distribution, Figure, same, summed
from servemark.figures.value import BYTES, COUNT, MS, Value

_NO_REQUEST = "--request-compression was not asked for"
_NO_ANSWER = "--response-compression was not asked for"
_NONE_CAME = "no answer came compressed"


def _of_requests(of: Callable[[Compression], int]) -> Callable[[Evidence], Value | None]:
    def compute(evidence: Evidence) -> Value | None:
        found = evidence.compression
        if found is None or not any(evidence.compressed):
            return None
        return Value(of(found) / found.requests, n=found.requests) if found.requests else Value.unknown(_NO_REQUEST)

    return compute


def _of_answers(of: Callable[[Compression], int]) -> Callable[[Evidence], Value | None]:
    def compute(evidence: Evidence) -> Value | None:
        found = evidence.compression
        if found is None or not any(evidence.compressed):
            return None
        if not found.answers:
            return Value.unknown(_NONE_CAME if evidence.compressed[1] else _NO_ANSWER)
        return Value(of(found) / found.answers, n=found.answers)

    return compute


def _compressed(evidence: Evidence) -> Value | None:
    found = evidence.compression
    return None if found is None or not any(evidence.compressed) else Value(found.answers)


def _dns(evidence: Evidence) -> Value | None:
    if evidence.connections is None:
        return None
    return Value.of(evidence.connections.dns_ms, "the URL has an address, and not a name")


FIGURES = (
    Figure("connection.dns", MS, "Looking up the server's name, once before the run.", _dns, "lower", same),
    Distribution(
        "connect",
        "From the beginning of the connection until it is established.",
        lambda evidence: None if evidence.connections is None else evidence.connections.connect,
    ),
    Distribution(
        "tls",
        "The TLS handshake.",
        lambda evidence: evidence.connections.tls if evidence.connections and evidence.secure else None,
        title="TLS handshake",
    ),
    Distribution(
        "first_byte",
        "From sending the request to the first bytes of the answer.",
        lambda evidence: None if evidence.connections is None else evidence.connections.first_byte,
    ),
    Distribution(
        "receive",
        "From the first bytes of the answer to the last byte.",
        lambda evidence: None if evidence.connections is None else evidence.connections.receive,
    ),
    Figure(
        "compression.request_bytes",
        BYTES,
        "Mean size of a request's body, or message, as it was made.",
        _of_requests(lambda found: found.request_bytes),
    ),
    Figure(
        "compression.request_sent_bytes",
        BYTES,
        "The same as it travelled.",
        _of_requests(lambda found: found.sent_bytes),
    ),
    Figure(
        "compression.compressed_answers",
        COUNT,
        "Answers that came compressed, those of the warm-up among them.",
        _compressed,
        join=summed,
    ),
    Figure(
        "compression.answer_received_bytes",
        BYTES,
        "Mean size of these answers as they came.",
        _of_answers(lambda found: found.received_bytes),
    ),
    Figure(
        "compression.answer_bytes",
        BYTES,
        "The same without compression.",
        _of_answers(lambda found: found.answer_bytes),
    ),
    Figure(
        "cancellation.requests",
        COUNT,
        "Requests of the interval that were to be given up. They count in no other figure.",
        lambda evidence: None if evidence.cancellation is None else Value(evidence.cancellation.requests),
        join=summed,
    ),
    Figure(
        "cancellation.cancelled",
        COUNT,
        "Those that were given up: the connection was closed (HTTP), or the stream reset (gRPC).",
        lambda evidence: None if evidence.cancellation is None else Value(evidence.cancellation.given_up.count),
        join=summed,
    ),
    Figure(
        "cancellation.answered",
        COUNT,
        "Those that were answered before.",
        lambda evidence: None if evidence.cancellation is None else Value(evidence.cancellation.answered),
        join=summed,
    ),
    Distribution(
        "given_up",
        "From sending to giving up.",
        lambda evidence: None if evidence.cancellation is None else evidence.cancellation.given_up,
        better=None,
    ),
)
