"""Sequences of requests to a stateful model, and several answers to each request of a decoupled one."""

from collections.abc import Callable

from servemark.figures.evidence import Answers, Evidence, Sequences
from servemark.figures.figure import NONE_SENT, Distribution, Figure, largest, mean, summed
from servemark.figures.throughput import per_s
from servemark.figures.value import ANSWERS_PER_S, COUNT, SEQUENCES_PER_S, Value


def _of(of: Callable[[Sequences], int]) -> Callable[[Evidence], Value | None]:
    return lambda evidence: None if evidence.sequences is None else Value(of(evidence.sequences))


def _per_request(evidence: Evidence) -> Value | None:
    found: Answers | None = evidence.answers
    if found is None:
        return None
    return Value(found.answers / found.requests, n=found.requests) if found.requests else Value.unknown(NONE_SENT)


FIGURES = (
    Figure("sequence.length", COUNT, "Requests of each sequence.", _of(lambda found: found.length), join=largest),
    Figure("sequence.in_flight", COUNT, "Most sequences in flight.", _of(lambda found: found.in_flight), join=summed),
    Figure(
        "sequence.completed",
        COUNT,
        "Sequences whose last answer came in the interval.",
        _of(lambda found: found.completed),
        join=summed,
    ),
    Figure(
        "sequence.broken",
        COUNT,
        "Sequences begun in the interval of which a request failed.",
        _of(lambda found: found.broken),
        better="lower",
        join=summed,
    ),
    Figure(
        "sequence.rate",
        SEQUENCES_PER_S,
        "Completed sequences per second.",
        lambda evidence: None if evidence.sequences is None else per_s(evidence.sequences.completed, evidence),
        better="higher",
        join=summed,
    ),
    Distribution(
        "sequence",
        "From the schedule of the first request of a sequence to the last answer.",
        lambda evidence: None if evidence.sequences is None else evidence.sequences.duration,
    ),
    Figure(
        "answers.per_request",
        COUNT,
        "Mean number of answers to a request.",
        _per_request,
        join=mean,
    ),
    Figure(
        "answers.rate",
        ANSWERS_PER_S,
        "Answers that came in the interval, per second.",
        lambda evidence: None if evidence.answers is None else per_s(evidence.answers.came, evidence),
        better="higher",
        join=summed,
    ),
    Distribution(
        "first_answer",
        "From the schedule to the first answer.",
        lambda evidence: None if evidence.answers is None else evidence.answers.first,
    ),
    Distribution(
        "between_answers",
        "From one answer to the next of the same request.",
        lambda evidence: None if evidence.answers is None else evidence.answers.between,
    ),
)
