"""CPU latency QoS, held and not: how late requests go out, how long they take, and what a virtual machine's host takes.

`ranking` behind the embedded Triton on the same cores: an open loop, then a closed one, each in turns.
"""

from collections.abc import Callable
from functools import partial

from benchmarks.rig.pairs import alternate
from benchmarks.rig.servemark_run import metrics_of
from exporters import export
from servemark.paths import MODEL_REPOSITORY
from servemark.repository.entry import Entry
from servemark.stats.ratios import ratio_of_pairs
from servemark.workload import get
from servers import open_server

STOLEN = "stolen cores"
LOADS = {"open loop, 600 requests/s": ("--request-rate", "600"), "closed loop, 2 in flight": ("--concurrency", "2")}


def cpu_latency(pairs: int, seconds: float) -> None:
    """Measure and print."""
    workload = get("ranking")
    export(workload, "onnxruntime", MODEL_REPOSITORY)
    entry = Entry(MODEL_REPOSITORY, workload.name, "onnxruntime")
    with open_server("embedded", MODEL_REPOSITORY, [entry.model]) as server:
        for name, load in LOADS.items():
            print(f"{entry.model}, {name}: CPU latency QoS held against not held", flush=True)
            _compare(partial(_figures, entry, seconds, "-u", server.http, *load, "--cpu-latency-qos"), pairs)


def _figures(entry: Entry, seconds: float, *flags: str) -> dict[str, float]:
    found, asked = metrics_of(entry, seconds, *flags), flags[-1]
    if found["client"]["cpu_latency_us"] != (0 if asked == "on" else None):
        raise SystemExit(f"--cpu-latency-qos {asked} was not had: {found['client']}")
    figures = {
        "throughput, requests/s": found["throughput"]["requests_per_s"],
        "schedule delay p99, ms": found["schedule_delay_ms"]["p99"],
        "latency p50, ms": found["latency_ms"]["p50"],
        "latency p99, ms": found["latency_ms"]["p99"],
        STOLEN: found["cpu"]["stolen_cores"],
    }
    return {name: value for name, value in figures.items() if value is not None}  # a closed loop has no schedule


def _compare(figures: Callable[[str], dict[str, float]], pairs: int) -> None:
    rounds = []
    for held, idle in alternate(lambda: figures("on"), lambda: figures("off"), pairs):
        rounds.append((held, idle))
        shown = ", ".join(f"{name} {held[name]:.3g} against {idle[name]:.3g}" for name in held)
        print(f"pair {len(rounds)}/{pairs}: {shown}", flush=True)
    for name in rounds[0][0]:
        if name == STOLEN:  # there may be none
            means = [sum(each[side][name] for each in rounds) / pairs for side in (0, 1)]
            print(f"{name}: mean {means[0]:.3g} against {means[1]:.3g}")
            continue
        print(f"{name}: ratio {ratio_of_pairs([(held[name], idle[name]) for held, idle in rounds])}")
