"""Checks that every load result must pass, whoever made it."""

from typing import Any

from servemark.results.schema.header import reason_of
from tests.support.documents import validated
from tests.support.locust_run import Result, accounted

GROUPS = """latency_ms service_time_ms schedule_delay_ms tail_bounds.bounds_ms answered_latency_ms throughput
errors energy server client cpu correctness.output_agreement correctness.quality"""


def check_schema(result: Result) -> None:
    """Its schema describes it, and a null has its reason (or one for its group)."""
    validated(result)
    groups = {"": result} | {path: _at(result["metrics"], path) for path in GROUPS.split()}
    for path, group in groups.items():
        for key, value in group.items():
            assert value is not None or reason_of(group, key), f"{path}.{key} is null without a reason"


def _at(group: Any, path: str) -> Any:
    for key in path.split("."):
        group = group[key]
    return group


def check_counts(result: Result, received: int) -> None:
    """Nothing lost, nothing counted twice: the server's log has as many requests as the result accounts for."""
    assert accounted(result) == received
    errors = result["metrics"]["errors"]
    assert sum(errors["by_kind"].values()) == errors["count"]


def constraint(result: Result, name: str) -> Result:
    [found] = [c for c in result["verdict"]["constraints"] if c["name"] == name]
    return dict(found)
