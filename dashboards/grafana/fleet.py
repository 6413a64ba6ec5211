"""All workloads of a suite or a mix at a glance: a row for each, and where each stands."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.grafana._board import GREEN, Line, board, figure, graph, row, rows, states
from dashboards.grafana._queries import (
    FAILED,
    LATENCY,
    OK,
    REQUESTS,
    highest,
    latest,
    now,
    of,
    quantile,
    rate,
    total,
    total_quantile,
)

RUN = ("workload", "engine", "precision", "device", "run")
BY_WORKLOAD = ("workload",)


def dashboard() -> Dashboard:
    """Show all workloads."""
    made = board("fleet", "servemark: fleet", "All workloads of a suite or a mix.")
    made = row(
        made,
        "Runs in the time shown",
        rows(
            "runs",
            "A run that is over keeps its figures. Budget burned: above 1 the objective is missed.",
            RUN,
            {
                "answered": ("short", total(REQUESTS, OK, by=RUN)),
                "failed": ("short", total(REQUESTS, FAILED, by=RUN)),
                "p50": ("s", total_quantile(0.5, LATENCY, RUN)),
                "p95": ("s", total_quantile(0.95, LATENCY, RUN)),
                "p99": ("s", total_quantile(0.99, LATENCY, RUN)),
                "budget burned": ("none", latest("max", "servemark_objective_budget_burned_ratio", RUN)),
                "constraints held": ("percentunit", latest("avg", "servemark_constraint_ok", RUN)),
            },
        ),
    )
    return row(
        made,
        "Workloads",
        figure(
            "runs", "That are going on.", "short", Line(f"count ({of('servemark_run_info')})", "now"), width=4, height=8
        ),
        states(
            "measuring",
            "1 in the measured interval of a run.",
            Line(highest("servemark_measuring", by=("workload", "engine")), "{{workload}} {{engine}}"),
            {"1": ("measuring", GREEN), "0": ("warm-up or drain", "blue")},
            width=20,
        ),
        graph("answered", "Answered requests.", "reqps", Line(rate(REQUESTS, OK, by=BY_WORKLOAD), "{{workload}}")),
        graph(
            "failed",
            "Failed requests.",
            "reqps",
            Line(rate(REQUESTS, FAILED, by=("workload", "kind")), "{{workload}} {{kind}}"),
        ),
        graph("p50", "Median latency.", "s", Line(quantile(0.5, LATENCY, BY_WORKLOAD), "{{workload}}"), log=True),
        graph(
            "p99",
            "99th percentile of the latency.",
            "s",
            Line(quantile(0.99, LATENCY, BY_WORKLOAD), "{{workload}}"),
            log=True,
        ),
        graph(
            "in flight",
            "Sent and not answered.",
            "short",
            Line(now("servemark_requests_in_flight", by=BY_WORKLOAD), "{{workload}}"),
        ),
        graph(
            "error budget burned",
            "Above 1 the objective is missed.",
            "none",
            Line(
                highest("servemark_objective_budget_burned_ratio", by=("workload", "objective")),
                "{{workload}} {{objective}}",
            ),
            limit=1,
        ),
    )
