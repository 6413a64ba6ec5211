"""Pushes snapshots to a Prometheus Pushgateway, each run as a group of its own."""

from collections.abc import Callable
from typing import Any

from prometheus_client import push_to_gateway

from servemark.telemetry.metrics.exposition import registry
from servemark.telemetry.metrics.push import TIMEOUT_S, Send, post
from servemark.telemetry.metrics.snapshot import Snapshot

JOB = "servemark"


def to_gateway(url: str) -> Send:
    """Return a function that pushes to the gateway at this URL; a snapshot replaces the one before."""

    def send(snapshot: Snapshot) -> None:
        group = {"run": snapshot.run_labels["run"]}
        push_to_gateway(url, JOB, registry(snapshot), grouping_key=group, timeout=TIMEOUT_S, handler=_handler)

    return send


def _handler(
    url: str,
    method: str,
    timeout: float | None,  # noqa: ARG001 - as prometheus-client calls it
    headers: list[tuple[str, str]],
    data: bytes,
) -> Callable[[], Any]:
    return lambda: post(method, url, dict(headers), data)
