"""What serving costs: ResNet-50, batch 1, through the embedded Triton against the same engine in this process.

    python -m benchmarks.serving_cost [--workload resnet50] [--engine onnxruntime] [--pairs 5] [--requests 60]

One request at a time, in turns: a block in-process, a block over HTTP through servemark's own driver. The ratio of the
blocks' p50 is printed; the aim is at most 1.10.
"""

import argparse
import itertools
import statistics
import time

import servers
from benchmarks.pairs import interleave
from exporters import export
from loadgen.arrivals import ClosedLoop
from loadgen.channel import Outcome, Payload
from loadgen.connection import Connection
from loadgen.driver import Driver
from loadgen.kserve import ResponseChecker, encode_request
from loadgen.tcp import resolve
from servemark.artifacts import Arrays, Entry, Golden
from servemark.models import Workload, get
from servemark.paths import MODEL_REPOSITORY
from servemark.ratios import ratio_of_pairs
from servers.engines import Engine, load_engine

WARMUP = 5
LIMIT_S = 300


def in_process(engine: Engine, rows: list[Arrays], requests: int) -> float:
    """p50 in ms of calls to the engine."""
    times = []
    for index in range(WARMUP + requests):
        start = time.perf_counter()
        engine.run(rows[index % len(rows)])
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[WARMUP:])


def served(url: str, model: str, workload: Workload, rows: list[Arrays], requests: int) -> float:
    """p50 in ms of requests on one connection."""
    datatypes = {tensor.name: tensor.datatype for tensor in workload.inputs}
    payloads = [Payload(encode_request(url, model, row, workload.outputs, datatypes)) for row in rows]
    outcomes: list[Outcome] = []
    limit = time.monotonic_ns() + LIMIT_S * 1_000_000_000
    loop = ClosedLoop(1, lambda now: now >= limit)

    def take(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if len(outcomes) == WARMUP + requests:
            loop.stop()

    address, checker = resolve(f"http://{url}"), ResponseChecker(workload.outputs, 1)
    driver = Driver(
        lambda: Connection(address, checker),
        itertools.cycle(payloads),
        timeout_s=30,
        max_in_flight=1,
        on_outcome=take,
        on_tick=lambda _: None,
    )
    driver.run(loop)
    driver.close()
    failed = [outcome for outcome in outcomes if outcome.error]
    if failed:
        raise SystemExit(f"{len(failed)} requests failed: {failed[0].error} {failed[0].message}")
    return statistics.median((o.done - o.scheduled) / 1e6 for o in outcomes[WARMUP:])


def main() -> None:
    """Print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="resnet50")
    parser.add_argument("--engine", default="onnxruntime")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=60)
    options = parser.parse_args()
    workload = get(options.workload)
    export(workload, options.engine, MODEL_REPOSITORY)
    entry = Entry(MODEL_REPOSITORY, workload.name, options.engine)
    golden: Golden | None = entry.read_golden()
    assert golden is not None  # the export has just written or checked it
    rows: list[Arrays] = [{k: v[i : i + 1] for k, v in golden.inputs.items()} for i in range(golden.rows)]
    engine = load_engine(
        options.engine,
        next(entry.version.iterdir()),
        inputs=[tensor.name for tensor in workload.inputs],
        outputs=[tensor.name for tensor in workload.outputs],
    )
    with servers.open_server("embedded", MODEL_REPOSITORY, [entry.model]) as server:
        print(f"p50 in ms of {entry.model}, batch 1, embedded Triton against in-process ({engine.provider}):")
        found = interleave(
            lambda: served(server.http, entry.model, workload, rows, options.requests),
            lambda: in_process(engine, rows, options.requests),
            options.pairs,
        )
    print(f"p50 ratio served / in-process: {ratio_of_pairs(found)}")


if __name__ == "__main__":
    main()
