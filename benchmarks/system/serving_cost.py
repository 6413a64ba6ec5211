"""What serving costs: ResNet-50, batch 1, through the embedded Triton against the same engine in this process.

    python -m benchmarks.system.serving_cost [--workload resnet50] [--engine onnxruntime] [--pairs 5] [--seconds 4]

One request at a time, in turns: `servemark run` against the server, `servemark run --in-process`. The ratio of their
p50 is printed; the aim is at most 1.10.
"""

import argparse

import servers
from benchmarks.rig.pairs import interleave
from benchmarks.rig.servemark_run import metrics_of
from exporters import export
from servemark.paths import MODEL_REPOSITORY
from servemark.repository.entry import Entry
from servemark.stats.ratios import ratio_of_pairs
from servemark.workload import get


def p50_ms(entry: Entry, seconds: float, *target: str) -> float:
    """Median latency of one run."""
    return float(metrics_of(entry, seconds, "--concurrency", "1", *target)["latency_ms"]["p50"])


def main() -> None:
    """Print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="resnet50")
    parser.add_argument("--engine", default="onnxruntime")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    workload = get(options.workload)
    export(workload, options.engine, MODEL_REPOSITORY)
    entry = Entry(MODEL_REPOSITORY, workload.name, options.engine)
    with servers.open_server("embedded", MODEL_REPOSITORY, [entry.model]) as server:
        print(f"p50 in ms of {entry.model}, batch 1, embedded Triton against in-process:")
        found = interleave(
            lambda: p50_ms(entry, options.seconds, "-u", server.http),
            lambda: p50_ms(entry, options.seconds, "--in-process"),
            options.pairs,
        )
    print(f"p50 ratio served / in-process: {ratio_of_pairs(found)}")


if __name__ == "__main__":
    main()
