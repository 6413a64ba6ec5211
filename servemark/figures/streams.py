"""Sequences of requests to a stateful model, and several answers to each request of a decoupled one."""

from collections.abc import Callable

from servemark.figures.evidence import Evidence, Sequences
from servemark.figures.figure import NONE_SENT, Better, Distribution, Figure, Join, largest, mean, summed
from servemark.figures.throughput import per_s
from servemark.figures.value import ANSWERS_PER_S, COUNT, SEQUENCES_PER_S, Value


def _sequences(
    name: str, words: str, of: Callable[[Sequences], int], join: Join = summed, better: Better | None = None
) -> Figure:
    def compute(evidence: Evidence) -> Value | None:
        return Value(of(evidence.sequences)) if evidence.sequences else None

    return Figure(f"sequence.{name}", COUNT, words, compute, better=better, join=join)


def _per_request(evidence: Evidence) -> Value | None:
    found = evidence.answers
    return None if found is None else Value.ratio(found.answers, found.requests, NONE_SENT)


FIGURES = (
    _sequences("length", "Requests of each sequence.", lambda found: found.length, join=largest),
    _sequences("in_flight", "Most sequences in flight.", lambda found: found.in_flight),
    _sequences("completed", "Sequences whose last answer came in the interval.", lambda found: found.completed),
    _sequences(
        "broken",
        "Sequences begun in the interval of which a request failed.",
        lambda found: found.broken,
        better="lower",
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
    Figure("answers.per_request", COUNT, "Mean number of answers to a request.", _per_request, join=mean),
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
