"""A mix of workloads on the terminal: the whole, then a row for each workload."""

from rich.console import Console
from rich.table import Table

from servemark.results.schema.run import Result
from servemark.results.verdict import said
from servemark.views.terminal.load import render


def render_mix(result: Result, console: Console) -> None:
    """Print the result of a mix."""
    render(result, console)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("workload")
    for column in ("share", "requests/s", "p50 ms", "p90 ms", "p99 ms", "failed"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for part in result["mix"]:
        metrics = part["metrics"]
        latency, rate = metrics["latency_ms"], metrics["throughput"]["requests_per_s"]
        table.add_row(
            part["workload"],
            f"{part['share']:.1%}",
            "-" if rate is None else f"{rate:,.1f}",
            *("-" if ms is None else f"{ms:,.3f}" for ms in (latency["p50"], latency["p90"], latency["p99"])),
            str(metrics["errors"]["count"]),
            said(part["verdict"]),
        )
    console.print(table)
