"""Several runs side by side: the points of a range, and how far repeats lie apart."""

from collections.abc import Sequence

from rich.table import Table

from servemark.output import stdout
from servemark.results.labels import describe
from servemark.results.schema.run import Curve, Result
from servemark.results.verdict import said
from servemark.stats.ratios import MINIMUM_REPEATS, variation


def render_series(found: Sequence[Result], knee: float | None = None) -> None:
    """Print one row for each run, that of the knee marked, and the variation of repeats."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("load", "requests/s", "mean ms", "p50 ms", "p90 ms", "p99 ms", "max ms", "failed", "verdict"):
        table.add_column(column, justify="left" if column in ("load", "verdict") else "right")
    for result in found:
        metrics = result["metrics"]
        latency = metrics["latency_ms"]
        table.add_row(
            describe(result["scenario"]),
            f"{metrics['throughput']['requests_per_s']:,.1f}",
            *(_ms(latency[key]) for key in ("mean", "p50", "p90", "p99", "max")),
            str(metrics["errors"]["count"]),
            said(result["verdict"]) + ("  <- knee" if _at(result, knee) else ""),
        )
    stdout().print(table)
    for load, runs in _repeats(found).items():
        if len(runs) >= MINIMUM_REPEATS:
            throughput = [run["metrics"]["throughput"]["requests_per_s"] for run in runs]
            p50 = [run["metrics"]["latency_ms"]["p50"] for run in runs]
            stdout().print(
                f"{load}: coefficient of variation over {len(runs)} repeats: "
                f"throughput {_variation(throughput)}, p50 {_variation(p50)}",
            )


def _at(result: Result, knee: float | None) -> bool:
    return knee is not None and result["scenario"]["requested_rate"] == knee


def render_curve(found: Sequence[Result], curve: Curve) -> None:
    """Print the throughput-latency curve of a range of rates."""
    render_series(found, curve["knee"])
    knee = "none" if curve["knee"] is None else f"{curve['knee']:g} requests/s"
    stdout().print(f"knee: {knee} ({curve['knee_reason']}); {curve['definition']}", soft_wrap=True)


def _repeats(found: Sequence[Result]) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in found:
        groups.setdefault(describe(result["scenario"]), []).append(result)
    return groups


def _variation(values: Sequence[float | None]) -> str:
    found = variation(values)
    return "not known" if found is None else f"{found:.1%}"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3f}"
