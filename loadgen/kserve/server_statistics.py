"""Figures of a run from Triton's counters and error messages: times in the server, restarts, a dead backend."""

import re
from collections.abc import Mapping
from typing import Any

from servemark.results.schema.metrics import ComposingFigures, ServerFigures
from servemark.stats.unknown import explained, unknown, unknown_group

COUNTED_SHARE = 0.98
"""A server that counts less than this share of the answers it gave in the interval alone has forgotten some."""
BACKEND_DIED = "backend_died"
"""The kind of failure where the process that runs the model is gone, which Triton 2.51 never starts again."""
_STUB_DIED = re.compile(r"Stub process '.*' is not healthy")


_TIMES = ("queue", "compute_input", "compute_infer", "compute_output")
COMPOSING = "composing"
"""Key for the statistics and figures of the models that a pipeline calls."""
NONE_EXECUTED = "no request was executed"
_MAX_COUNTER = 1 << 64


def is_whole(statistics: Any) -> bool:
    """Return True if the statistics have every counter that is read, because half of them would mislead."""
    try:
        durations = [statistics["inference_stats"][key] for key in ("success", *_TIMES)]
        counters = [statistics["inference_count"], statistics["execution_count"]]
        counters += [duration[key] for duration in durations for key in ("count", "ns")]
        for batch in statistics.get("batch_stats", []):
            counters += [batch["batch_size"], batch["compute_infer"]["count"]]
    except (AttributeError, KeyError, TypeError):
        return False
    return all(type(counter) is int and 0 <= counter < _MAX_COUNTER for counter in counters)


@explained
def server_metrics(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, no_statistics: str
) -> ServerFigures:
    """Return mean times per request (ms) and executed batch sizes between two readings of the statistics.

    Statistics may hold those of a pipeline's models, `composing`: each has its own figures.
    """
    if before is None or after is None:
        return unknown_group(ServerFigures, no_statistics)
    metrics = _figures(before, after)
    parts, ended, asked = before.get(COMPOSING, {}), after.get(COMPOSING, {}), _requests(before, after)
    if known := [name for name in parts if name in ended]:
        metrics["composing"] = {name: _composing(parts[name], ended[name], asked) for name in known}
    return metrics


def _composing(before: Mapping[str, Any], after: Mapping[str, Any], asked: int) -> ComposingFigures:
    """Figures of a model of a pipeline, whose pipeline had `asked` requests."""
    found = _figures(before, after)
    return {
        "queue_ms": found["queue_ms"],
        "compute_input_ms": found["compute_input_ms"],
        "compute_infer_ms": found["compute_infer_ms"],
        "compute_output_ms": found["compute_output_ms"],
        "batch_size_mean": found["batch_size_mean"],
        "batch_sizes": found["batch_sizes"],
        "calls": _requests(before, after) / asked if asked > 0 else unknown(NONE_EXECUTED),
    }


def _requests(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """Requests that succeeded."""
    first, last = (statistics["inference_stats"]["success"]["count"] for statistics in (before, after))
    return int(last - first)


def _figures(before: Mapping[str, Any], after: Mapping[str, Any]) -> ServerFigures:
    def mean_ms(step: str) -> float | None:
        first, last = (statistics["inference_stats"][step] for statistics in (before, after))
        count = last["count"] - first["count"]
        return (last["ns"] - first["ns"]) / count / 1e6 if count > 0 else unknown(NONE_EXECUTED)

    inferences = after["inference_count"] - before["inference_count"]
    executions = after["execution_count"] - before["execution_count"]
    counts = {b["batch_size"]: b["compute_infer"]["count"] for b in after.get("batch_stats", [])}
    for batch in before.get("batch_stats", []):
        counts[batch["batch_size"]] = counts.get(batch["batch_size"], 0) - batch["compute_infer"]["count"]
    return {
        "queue_ms": mean_ms("queue"),
        "compute_input_ms": mean_ms("compute_input"),
        "compute_infer_ms": mean_ms("compute_infer"),
        "compute_output_ms": mean_ms("compute_output"),
        "batch_size_mean": inferences / executions if executions > 0 else unknown(NONE_EXECUTED),
        "batch_sizes": {str(size): count for size, count in sorted(counts.items()) if count > 0},
    }


def failure_kind(kind: str, message: str) -> str:
    """The kind of a failure of which the server says more than its status: a dead backend answers as any error does."""
    return BACKEND_DIED if _STUB_DIED.search(message) else kind


def restarted(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, answered: int) -> bool:
    """Return True if the model was loaded again: its counter fell, or is below its answers in the interval.

    Not the counter's growth: a busy server may answer the first reading so late that much of the interval is over.
    """
    if before is None or after is None:
        return False
    first, last = (statistics["inference_stats"]["success"]["count"] for statistics in (before, after))
    return bool(last < first or last < COUNTED_SHARE * answered)
