"""Real-time priority of the sending thread, with and without: what it gives, and what it takes from the server.

ResNet-50 behind the embedded Triton on the same cores, in turns. Open loop at half of what a closed loop answers: the
schedule delay, and the server's own latency by its statistics. Closed loop: throughput.
"""

from collections.abc import Callable
from typing import Any

import servers
from benchmarks.rig.aims import NONE, Aim
from benchmarks.rig.pairs import alternate
from benchmarks.rig.servemark_run import metrics_of
from exporters import export
from servemark.paths import MODEL_REPOSITORY
from servemark.repository.entry import Entry
from servemark.stats.ratios import ratio_of_pairs
from servemark.workload import get

SHARE = 0.5
CONCURRENCY = "2"
STEPS = ("queue_ms", "compute_input_ms", "compute_infer_ms", "compute_output_ms")

Metrics = dict[str, Any]
Figure = Callable[[Metrics], float]


def priority(pairs: int, seconds: float) -> None:
    """Measure and print."""
    workload = get("resnet50")
    export(workload, "onnxruntime", MODEL_REPOSITORY)
    entry = Entry(MODEL_REPOSITORY, workload.name, "onnxruntime")
    with servers.open_server("embedded", MODEL_REPOSITORY, [entry.model]) as server:

        def run(asked: str, *load: str) -> Metrics:
            return metrics_of(entry, seconds, "-u", server.http, "--sender-priority", asked, *load)

        closed = ("--concurrency", CONCURRENCY)
        rate = SHARE * _throughput(run("normal", *closed))
        opened = ("--request-rate", f"{rate:.3g}")
        print(f"{entry.model}: real time against normal", flush=True)
        _compare(
            f"open loop, {rate:.3g} requests/s",
            [("schedule delay p99, ms", _delay_ms, Aim(most=1.0)), ("server's latency, ms", _server_ms, NONE)],
            *(lambda asked=asked: run(asked, *opened) for asked in ("realtime", "normal")),
            pairs=pairs,
        )
        _compare(
            f"closed loop, concurrency {CONCURRENCY}",
            [("requests/s", _throughput, NONE), ("server's latency, ms", _server_ms, NONE)],
            *(lambda asked=asked: run(asked, *closed) for asked in ("realtime", "normal")),
            pairs=pairs,
        )


def _compare(
    title: str,
    figures: list[tuple[str, Figure, Aim]],
    realtime: Callable[[], Metrics],
    normal: Callable[[], Metrics],
    *,
    pairs: int,
) -> None:
    """Print each pair, and the ratios with their intervals; an aim is real time's own."""
    found = []
    for with_it, without in alternate(realtime, normal, pairs):
        got = with_it["client"]["priority"]
        if got != "realtime":
            raise SystemExit(f"the sending thread had no real time: {got}, {with_it['client'].get('priority_note')}")
        found.append((with_it, without))
        shown = ", ".join(f"{name} {of(with_it):.4g} against {of(without):.4g}" for name, of, _ in figures)
        print(f"{title}, pair {len(found)}/{pairs}: {shown}", flush=True)
    for name, of, aim in figures:
        ratio = ratio_of_pairs([(of(with_it), of(without)) for with_it, without in found])
        worst = max(of(with_it) for with_it, _ in found)
        print(f"{title}: {name}, ratio real time / normal {ratio}; largest {worst:.4g}, {aim.verdict(worst)}")


def _throughput(metrics: Metrics) -> float:
    return float(metrics["throughput"]["requests_per_s"])


def _delay_ms(metrics: Metrics) -> float:
    return float(metrics["schedule_delay_ms"]["p99"] or metrics["schedule_delay_ms"]["max"])


def _server_ms(metrics: Metrics) -> float:
    """Mean time of a request inside the server, queue included."""
    return sum(float(metrics["server"][step]) for step in STEPS)
