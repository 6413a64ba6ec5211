"""A mix of workloads on the terminal: the whole, then a row for each workload."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from servemark.report.terminal.load import render

_PERCENTILES = ("p50", "p90", "p99")


def render_mix(result: Mapping[str, Any], console: Console) -> None:
    """Print the result of a mix."""
    render(result, console)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("workload")
    for column in ("share", "requests/s", *(f"{name} ms" for name in _PERCENTILES), "failed"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for part in result["mix"]:
        metrics = part["metrics"]
        latency, rate = metrics["latency_ms"], metrics["throughput"]["requests_per_s"]
        table.add_row(
            part["workload"],
            f"{part['share']:.1%}",
            "-" if rate is None else f"{rate:,.1f}",
            *("-" if latency[name] is None else f"{latency[name]:,.3f}" for name in _PERCENTILES),
            str(metrics["errors"]["count"]),
            "VALID" if part["verdict"]["valid"] else "INVALID",
        )
    console.print(table)
