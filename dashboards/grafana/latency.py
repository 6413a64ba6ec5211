"""One run, or a few: latency against its objective, and whether the load was the one asked for."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.grafana._board import GREEN, RED, WIDTH, YELLOW, Line, board, figure, graph, heat, row, states
from dashboards.grafana._queries import (
    DELAY,
    FAILED,
    LATENCY,
    OK,
    REQUESTS,
    SERVICE_TIME,
    cells,
    highest,
    latest,
    now,
    of,
    quantile,
    rate,
    total,
    total_quantile,
)

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
BURNT = ((None, GREEN), (0.8, YELLOW), (1, RED))
"""Above 1 the objective is missed."""
RECORDED = 'workload=~"$workload", engine=~"$engine", device=~"$device"'
"""Matchers of what the rules record, which have no run."""


def dashboard() -> Dashboard:
    """Latency of the chosen runs."""
    made = board("latency", "servemark: latency", "Latency counts from when a request was due.")
    made = row(
        made,
        "As it stands",
        figure(
            "latency",
            "Of all requests of each chosen run so far: the figures of its result.",
            "s",
            *(
                Line(total_quantile(share, LATENCY, ("run",)), f"{name} {{{{run}}}}")
                for name, share in PERCENTILES.items()
            ),
            width=WIDTH // 3,
        ),
        figure(
            "error budget burned",
            "Requests over the limit, of those that the objective allows. Above 100 % the objective is missed.",
            "percentunit",
            Line(
                latest("max", "servemark_objective_budget_burned_ratio", ("objective", "run")), "{{objective}} {{run}}"
            ),
            width=WIDTH // 6,
            steps=BURNT,
        ),
        figure(
            "ended requests",
            "In the time shown, by outcome.",
            "short",
            Line(total(REQUESTS, by=("outcome",)), "{{outcome}}"),
        ),
        figure(
            "constraints broken",
            "Constraints of the verdict that do not hold as it stands. With one of them the run ends INVALID.",
            "short",
            Line(
                f"count ({latest('min', 'servemark_constraint_ok', ('constraint', 'run'))} == 0) or vector(0)", "broken"
            ),
            steps=((None, GREEN), (1, RED)),
        ),
        figure(
            "client CPU",
            "The busiest thread of the generator. Near 100 % the generator is the limit.",
            "percentunit",
            Line(latest("max", "servemark_client_cpu_ratio", ("run",)), "{{run}}"),
            steps=((None, GREEN), (0.8, YELLOW), (0.95, RED)),
        ),
    )
    made = row(
        made,
        "Latency",
        graph(
            "latency",
            "From the schedule. Dashed: the limits of the objectives.",
            "s",
            *(Line(quantile(share, LATENCY), name) for name, share in PERCENTILES.items()),
            Line(highest("servemark_objective_limit", 'unit="seconds"', by=("objective",)), "limit {{objective}}"),
            log=True,
            dashed="limit",
        ),
        heat("latency, all requests", "Requests of each moment by their latency.", cells(LATENCY)),
        graph(
            "service time and schedule delay",
            "Latency is schedule delay and service time. A delay is the generator's own, or a backlog behind a stall.",
            "s",
            Line(quantile(0.5, SERVICE_TIME), "service time p50"),
            Line(quantile(0.99, SERVICE_TIME), "service time p99"),
            Line(quantile(0.5, DELAY), "schedule delay p50"),
            Line(quantile(0.99, DELAY), "schedule delay p99"),
            log=True,
        ),
        graph(
            "error budget burned",
            "Since the run began. Above 1 the objective is missed.",
            "none",
            Line(now("servemark_objective_budget_burned_ratio", by=("objective", "run")), "{{objective}} {{run}}"),
            limit=1,
        ),
        graph(
            "burn rate",
            "How many times faster than allowed the budget is spent. The alerts compare two windows with a threshold.",
            "none",
            *(
                Line(f"servemark:objective_burn:rate{window}{{{RECORDED}}}", f"{{{{objective}}}} {words}")
                for window, words in (("30s", "30 s"), ("5m", "5 min"))
            ),
            limit=1,
        ),
        states(
            "constraints",
            "Constraints of the verdict as they stand.",
            Line(f"min by (constraint) ({of('servemark_constraint_ok')})", "{{constraint}}"),
            {"1": ("holds", GREEN), "0": ("broken", RED)},
        ),
    )
    return row(
        made,
        "Load",
        graph(
            "rates",
            "What the schedule asks for, what was due, what was sent, and what was answered.",
            "reqps",
            Line(now("servemark_requested_rate"), "requested"),
            Line(rate("servemark_requests_scheduled_total"), "due"),
            Line(rate("servemark_requests_sent_total"), "sent"),
            Line(rate(REQUESTS, OK), "answered"),
            Line(f"{rate(REQUESTS, FAILED)} or vector(0)", "failed"),
            dashed="requested",
        ),
        graph(
            "errors by kind",
            "Failed requests a second.",
            "reqps",
            Line(rate(REQUESTS, FAILED, by=("kind",)), "{{kind}}"),
            stacked=True,
        ),
        graph(
            "in flight and backlog",
            "In flight: sent and not answered. Backlog: due and not sent.",
            "short",
            Line(now("servemark_requests_in_flight"), "in flight"),
            Line(now("servemark_requests_backlog"), "backlog"),
        ),
        graph(
            "client CPU",
            "The generator's busiest thread or worker, of one core.",
            "percentunit",
            Line(highest("servemark_client_cpu_ratio", by=("run",)), "{{run}}"),
            limit=0.95,
        ),
    )
