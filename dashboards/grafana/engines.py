"""Engines side by side: what each does, and how much of the baseline's that is.

A comparison runs its engines in turn, so at one moment only one of them is there. The ratios are therefore those of
whole runs in the time shown, and not of moments.
"""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.grafana._board import GREEN, RED, WIDTH, Line, Panel, board, figure, graph, row, rows, variable
from dashboards.grafana._queries import (
    CHOSEN,
    DELAY,
    FAILED,
    JOULES,
    LATENCY,
    OK,
    RANGE,
    REQUESTS,
    of,
    quantile,
    rate,
    total,
    total_quantile,
)

SIDE = ("workload", "engine", "precision", "device")
NAME = "{{workload}} {{engine}} {{precision}} {{device}}"
OF_BASELINE = 'workload=~"$workload", engine="$baseline", device=~"$device"'


def dashboard() -> Dashboard:
    """Compare engines."""
    made = board(
        "engines",
        "servemark: engines",
        "Engines, precisions and devices side by side, and as ratios to a baseline.",
        variable("engine", 'servemark_run_info{workload=~"$workload"}', name="baseline", many=False),
    )
    made = row(
        made,
        "Ratio to the baseline, over the time shown",
        _against("p50", "Median latency of an engine over the baseline's. Below 1 it is faster.", _latencies(0.5)),
        _against("p99", "99th percentile of the latency over the baseline's. Below 1 it is faster.", _latencies(0.99)),
        _against(
            "answered rate",
            "Answered requests a second of its runs over the baseline's. Above 1 it answers more.",
            _ratio(_answered_rate(SIDE), _answered_rate(("workload",), OF_BASELINE)),
            more=True,
        ),
        _against(
            "energy of a request",
            "Joules of a request over the baseline's, as far as both were metered. Below 1 it needs less.",
            _ratio(
                _joules((*SIDE, "boundary")), _joules(("workload", "boundary"), OF_BASELINE), ("workload", "boundary")
            ),
            f"{NAME} {{{{boundary}}}}",
        ),
    )
    made = row(
        made,
        "Side by side",
        graph("p50", "Median latency.", "s", Line(quantile(0.5, LATENCY, SIDE), NAME), log=True),
        graph("p99", "99th percentile of the latency.", "s", Line(quantile(0.99, LATENCY, SIDE), NAME), log=True),
        graph("answered", "Answered requests.", "reqps", Line(rate(REQUESTS, OK, by=SIDE), NAME)),
        graph(
            "schedule delay p99",
            "How late the generator was. Where it differs between engines, look at the verdict first.",
            "s",
            Line(quantile(0.99, DELAY, SIDE), NAME),
            log=True,
        ),
    )
    return row(
        made,
        "Figures",
        rows(
            "all runs in the time shown",
            "Pooled over the runs of each engine.",
            SIDE,
            {
                "p50": ("s", total_quantile(0.5, LATENCY, SIDE)),
                "p95": ("s", total_quantile(0.95, LATENCY, SIDE)),
                "p99": ("s", total_quantile(0.99, LATENCY, SIDE)),
                "schedule delay p99": ("s", total_quantile(0.99, DELAY, SIDE)),
                "answered": ("short", total(REQUESTS, OK, by=SIDE)),
                "failed": ("short", total(REQUESTS, FAILED, by=SIDE)),
            },
        ),
    )


def _against(title: str, description: str, ratio: str, name: str = NAME, *, more: bool = False) -> Panel:
    """Show a ratio to the baseline, in green where the engine is better: below 1, or above it where `more` is."""
    steps = ((None, RED), (0.9999, GREEN)) if more else ((None, GREEN), (1.0001, RED))
    return figure(title, description, "none", Line(ratio, name), width=WIDTH // 4, steps=steps)


def _ratio(figures: str, baseline: str, shared: tuple[str, ...] = ("workload",)) -> str:
    return f"({figures}) / on ({', '.join(shared)}) group_left () ({baseline})"


def _latencies(share: float) -> str:
    baseline = total_quantile(share, LATENCY, ("workload",), OF_BASELINE)
    return _ratio(total_quantile(share, LATENCY, SIDE), baseline)


def _answered_rate(by: tuple[str, ...], chosen: str = CHOSEN) -> str:
    """Requests over seconds in which they were measured: the share of the range with `servemark_measuring` at 1."""
    answered, measuring = total(REQUESTS, OK, by=by, chosen=chosen), of("servemark_measuring", chosen=chosen)
    return f"{answered} / sum by ({', '.join(by)}) (sum_over_time({measuring}[{RANGE}:1s]))"


def _joules(by: tuple[str, ...], chosen: str = CHOSEN) -> str:
    """Joules of an answered request."""
    shared = tuple(label for label in by if label != "boundary")
    joules, answered = total(JOULES, by=by, chosen=chosen), total(REQUESTS, OK, by=shared, chosen=chosen)
    return f"{joules} / on ({', '.join(shared)}) group_left () {answered}"
