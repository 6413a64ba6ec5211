"""Figures of a run from Triton's counters and error messages: times in the server, restarts, a dead backend."""

import re
from collections.abc import Mapping
from typing import Any

from servemark.figures.server import NONE_EXECUTED, Statistics, of_model
from servemark.figures.value import COUNT, Value
from servemark.results.schema.details import ComposingModel

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


def composing_models(before: Statistics, after: Statistics) -> dict[str, ComposingModel]:
    """Return the figures of the models that a pipeline calls, between two readings of the statistics; empty: none."""
    parts, ended, asked = before.get(COMPOSING, {}), after.get(COMPOSING, {}), _requests(before, after)
    found: dict[str, ComposingModel] = {}
    for name, first in parts.items():
        if (last := ended.get(name)) is not None:
            calls = Value(_requests(first, last) / asked) if asked > 0 else Value.unknown(NONE_EXECUTED)
            figures = {**of_model(first, last), "server.calls": calls.to_dict(COUNT)}
            found[name] = {"figures": figures, "batch_sizes": batch_sizes(first, last)}
    return found


def batch_sizes(before: Statistics, after: Statistics) -> dict[str, int]:
    """Return how often each size of batch was executed between two readings."""
    counts = {b["batch_size"]: b["compute_infer"]["count"] for b in after.get("batch_stats", [])}
    for batch in before.get("batch_stats", []):
        counts[batch["batch_size"]] = counts.get(batch["batch_size"], 0) - batch["compute_infer"]["count"]
    return {str(size): count for size, count in sorted(counts.items()) if count > 0}


def _requests(before: Statistics, after: Statistics) -> int:
    """Requests that succeeded."""
    first, last = (statistics["inference_stats"]["success"]["count"] for statistics in (before, after))
    return int(last - first)


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
