"""What every load result must hold, whoever made it."""

import re
from collections.abc import Iterator
from typing import Any

from servemark.paths import CHECKOUT
from tests.support.locust_run import Result, accounted

LATENCY = "mean stdev min p50 p90 p95 p99 p99_9 max count ci95"
TOP = """schema_version kind created command config seed workload task suites engine device provider precision
batch_size protocol shared_memory windows partial"""
NESTED: dict[str, str] = {
    "scenario": "mode distribution requested_rate concurrency duration_s measured_s warmup_s stages trace",
    "verdict": "valid exit_code constraints",
    "metrics.latency_ms": LATENCY,
    "metrics.service_time_ms": LATENCY,
    "metrics.schedule_delay_ms": f"{LATENCY} late_share",
    "metrics.throughput": "requests_per_s inferences_per_s requested_rate achieved_rate",
    "metrics.errors": "count share by_kind",
    "metrics.early_stopping": "confidence requests bounds_ms",
    "metrics.accuracy.output_agreement": "checked max_abs_error max_rel_error cosine_min top1_agreement",
    "metrics.accuracy.quality": "metric value target dataset",
    "metrics.energy": "joules_per_inference average_w idle_w joules source boundary samples",
    "metrics.server": "queue_ms compute_input_ms compute_infer_ms compute_output_ms batch_size_mean batch_sizes",
    "metrics.client": "cpu_share max_in_flight workers",
    "environment": "hostname cpu cores memory_gb gpus driver cuda os python packages git_commit git_dirty",
}
MAPS = {"by_kind", "messages", "packages", "variables", "batch_sizes", "engine_options", "not_judged", "gpus"}
"""Their keys are data, or somebody else's."""


def check_schema(result: Result) -> None:
    """Its keys are there, docs/reference/result.md has them all, and a null has its reason (or one for its group)."""
    assert {key for key in _keys(result) if not key.endswith("reason")} <= _documented()
    for path, keys in {"": TOP, **NESTED}.items():
        group = result
        for key in filter(None, path.split(".")):
            group = group[key]
        assert set(keys.split()) <= group.keys(), path
        for key in keys.split():
            # What a scenario does not have is no unknown figure; a machine without a GPU has no driver.
            if group[key] is None and path != "scenario":
                group_reason = group.get("reason") or group.get("gpus_reason")
                assert group.get(f"{key}_reason") or group_reason, f"{path}.{key} is null without a reason"


def _keys(value: Any) -> Iterator[str]:
    """Every key in a result, at any depth, but for those of maps whose keys are data."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield key
            if key not in MAPS:
                yield from _keys(below)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)


def _documented() -> set[str]:
    page = (CHECKOUT / "docs" / "reference" / "result.md").read_text()
    return {word for path in re.findall(r"`([\w.]+)`", page) for word in path.split(".")}


def check_counts(result: Result, received: int) -> None:
    """Nothing lost, nothing counted twice: the server's log has as many requests as the result accounts for."""
    assert accounted(result) == received
    errors = result["metrics"]["errors"]
    assert sum(errors["by_kind"].values()) == errors["count"]


def constraint(result: Result, name: str) -> Result:
    [found] = [c for c in result["verdict"]["constraints"] if c["name"] == name]
    return dict(found)
