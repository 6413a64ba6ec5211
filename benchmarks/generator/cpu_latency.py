"""CPU latency QoS, held and not: how late requests go out, how long they take, and what a virtual machine's host takes.

`ranking` behind the embedded Triton on the same cores, an open loop, in turns.
"""

from benchmarks.rig.pairs import alternate
from benchmarks.rig.servemark_run import metrics_of
from exporters import export
from servemark.paths import MODEL_REPOSITORY
from servemark.repository.entry import Entry
from servemark.stats.ratios import ratio_of_pairs
from servemark.workload import get
from servers import open_server

RATE = "600"


def cpu_latency(pairs: int, seconds: float) -> None:
    """Measure and print."""
    workload = get("ranking")
    export(workload, "onnxruntime", MODEL_REPOSITORY)
    entry = Entry(MODEL_REPOSITORY, workload.name, "onnxruntime")
    with open_server("embedded", MODEL_REPOSITORY, [entry.model]) as server:

        def figures(asked: str) -> dict[str, float]:
            found = metrics_of(entry, seconds, "-u", server.http, "--request-rate", RATE, "--cpu-latency-qos", asked)
            if found["client"]["cpu_latency_us"] != (0 if asked == "on" else None):
                raise SystemExit(f"--cpu-latency-qos {asked} was not had: {found['client']}")
            return {
                "schedule delay p99, ms": found["schedule_delay_ms"]["p99"],
                "latency p50, ms": found["latency_ms"]["p50"],
                "latency p99, ms": found["latency_ms"]["p99"],
                "stolen cores": found["cpu"]["stolen_cores"],
            }

        print(f"{entry.model}, {RATE} requests/s: CPU latency QoS held against not held", flush=True)
        rounds = []
        for held, idle in alternate(lambda: figures("on"), lambda: figures("off"), pairs):
            rounds.append((held, idle))
            shown = ", ".join(f"{name} {held[name]:.3g} against {idle[name]:.3g}" for name in held)
            print(f"pair {len(rounds)}/{pairs}: {shown}", flush=True)
    for name in rounds[0][0]:
        if name == "stolen cores":  # there may be none
            means = [sum(each[side][name] for each in rounds) / pairs for side in (0, 1)]
            print(f"{name}: mean {means[0]:.3g} against {means[1]:.3g}")
            continue
        ratio = ratio_of_pairs([(held[name], idle[name]) for held, idle in rounds])
        print(f"{name}: ratio {ratio}")
