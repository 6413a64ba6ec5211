"""Triton's statistics of the measured interval. Times are means of a request."""

from collections.abc import Callable, Mapping
from typing import Any

from servemark.figures.evidence import Evidence
from servemark.figures.figure import Figure
from servemark.figures.value import COUNT, MS, FigureValue, Value

NONE_EXECUTED = "no request was executed"
Statistics = Mapping[str, Any]


def _mean_ms(step: str) -> Callable[[Statistics, Statistics], Value]:
    def of(before: Statistics, after: Statistics) -> Value:
        first, last = (statistics["inference_stats"][step] for statistics in (before, after))
        count = last["count"] - first["count"]
        return Value.ratio((last["ns"] - first["ns"]) / 1e6, count, NONE_EXECUTED)

    return of


def _batch_size(before: Statistics, after: Statistics) -> Value:
    executions = after["execution_count"] - before["execution_count"]
    return Value.ratio(after["inference_count"] - before["inference_count"], executions, NONE_EXECUTED)


def _executed(before: Statistics, after: Statistics) -> Value:
    first, last = (statistics["inference_stats"]["success"]["count"] for statistics in (before, after))
    return Value(int(last - first))


_OF_MODEL = (
    ("queue", MS, "Waiting for an instance.", _mean_ms("queue")),
    ("compute_input", MS, "Preparing the inputs.", _mean_ms("compute_input")),
    ("compute_infer", MS, "Running the model.", _mean_ms("compute_infer")),
    ("compute_output", MS, "Preparing the outputs.", _mean_ms("compute_output")),
    ("batch_size", COUNT, "Mean size of the executed batches (samples).", _batch_size),
    ("requests", COUNT, "Requests that the server counted as answered.", _executed),
)


def of_model(before: Statistics, after: Statistics) -> dict[str, FigureValue]:
    """Return the figures of one model between two readings of its counters: of a pipeline's model, or of a window."""
    return {f"server.{name}": of(before, after).to_dict(unit) for name, unit, _, of in _OF_MODEL}


def _figure(of: Callable[[Statistics, Statistics], Value]) -> Callable[[Evidence], Value]:
    def compute(evidence: Evidence) -> Value:
        found = evidence.statistics
        return Value.unknown(found) if isinstance(found, str) else of(*found)

    return compute


FIGURES = tuple(
    Figure(f"server.{name}", unit, words, _figure(of), "lower" if unit is MS else None, detail=name == "requests")
    for name, unit, words, of in _OF_MODEL
)
