"""Figures of a run from Triton's counters and error messages: times in the server, restarts, a dead backend."""

import re
from collections.abc import Mapping
from typing import Any, cast

from servemark.results.schema.header import unknown
from servemark.results.schema.run import ModelFigures, ServerFigures

COUNTED_SHARE = 0.98
"""A server that counts less than this share of the answers it gave in the interval alone has forgotten some."""
BACKEND_DIED = "backend_died"
"""The kind of failure where the process that runs the model is gone, which Triton 2.51 never starts again."""
_STUB_DIED = re.compile(r"Stub process '.*' is not healthy")


_TIMES = ("queue", "compute_input", "compute_infer", "compute_output")
COMPOSING = "composing"
"""Key for the statistics and figures of the models that a pipeline calls."""
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


def server_metrics(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, no_statistics: str
) -> ServerFigures:
    """Return mean times per request (ms) and executed batch sizes between two readings of the statistics.

    Statistics may hold those of a pipeline's models, `composing`: each has its own figures.
    """
    if before is None or after is None:
        return cast(ServerFigures, unknown(ModelFigures.__annotations__, no_statistics))
    metrics = _figures(before, after)
    parts, ended = before.get(COMPOSING, {}), after.get(COMPOSING, {})
    if known := [name for name in parts if name in ended]:
        asked = _requests(before, after)
        metrics[COMPOSING] = {
            name: _figures(parts[name], ended[name])
            | (
                {"calls": _requests(parts[name], ended[name]) / asked}
                if asked > 0
                else unknown(["calls"], "no request was executed")
            )
            for name in known
        }
    return cast(ServerFigures, metrics)


def _requests(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """Requests that succeeded."""
    first, last = (statistics["inference_stats"]["success"]["count"] for statistics in (before, after))
    return int(last - first)


def _figures(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    for key in _TIMES:
        first, last = (stats["inference_stats"][key] for stats in (before, after))
        count = last["count"] - first["count"]
        metrics[f"{key}_ms"] = (last["ns"] - first["ns"]) / count / 1e6 if count > 0 else None
        if count <= 0:
            metrics[f"{key}_ms_reason"] = "no request was executed"
    inferences = after["inference_count"] - before["inference_count"]
    executions = after["execution_count"] - before["execution_count"]
    metrics["batch_size_mean"] = inferences / executions if executions > 0 else None
    if executions <= 0:
        metrics["batch_size_mean_reason"] = "no request was executed"
    counts = {b["batch_size"]: b["compute_infer"]["count"] for b in after.get("batch_stats", [])}
    for batch in before.get("batch_stats", []):
        counts[batch["batch_size"]] = counts.get(batch["batch_size"], 0) - batch["compute_infer"]["count"]
    metrics["batch_sizes"] = {str(size): count for size, count in sorted(counts.items()) if count > 0}
    return metrics


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
