"""Overhead of a Triton backend: compute_infer of an executed batch against the same engine in this process.

    python -m benchmarks.system.backend_overhead [--workload ranking] [--request-batch 8] [--rounds 5] [--seconds 3]

In turns: a closed loop on the embedded Triton, whose statistics say how long an execution of 8 samples took inside the
backend, and the engine here, called as often a second as Triton called it: a processor that slept in between computes
slower for a while. Requests of 8 samples are executed as they are; with `--request-batch 1` Triton joins requests, and
the backend concatenates them. The ratio's aim is at most 1.15. After it: what of the difference is Triton's Python
backend itself, which is what a model that does nothing takes at the same rate.
"""

import argparse
import itertools
import json
import math
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import servers
from benchmarks.generator import comparisons
from benchmarks.rig import locust_load
from benchmarks.rig.load import Load
from benchmarks.rig.pairs import interleave
from exporters import export
from loadgen.driver.connections import Connections
from loadgen.driver.event_loop import Driver
from loadgen.kserve.control import Control
from loadgen.load.arrivals import OpenLoopArrivals, schedule
from loadgen.sut.channel import Payload
from loadgen.targets.engine_threads import EngineThreads
from loadgen.targets.in_process import EngineChannel
from servemark.documents.load import Distribution
from servemark.figures.registry import count_of
from servemark.paths import MODEL_REPOSITORY
from servemark.repository.entry import Entry
from servemark.repository.model_config import Settings
from servemark.runs.entries import repository_with
from servemark.runs.in_process import configuration
from servemark.stats.ratios import ratio_of_pairs
from servemark.workload import Arrays, Workload, get, stack
from servemark.workload.engine import Engine
from servers.engines._loading import load_model

BATCH = 8
IN_FLIGHT = 2 * BATCH
"""Samples in flight: one batch in execution, one that waits."""
WARMUP_S = 0.5
TIMEOUT_S = 300
DISTINCT = 16
SETTINGS = Settings(max_batch=BATCH, queue_delay_us=2000)


@dataclass(frozen=True)
class Executions:
    """Triton's counts of a model's executions."""

    count: int
    compute_infer_ns: int


class Timed:
    """An engine that notes how long its calls took, in seconds."""

    def __init__(self, engine: Engine) -> None:
        self.name, self.device, self.provider = engine.name, engine.device, engine.provider
        self.scalars = engine.scalars
        self.times_s: list[float] = []
        self._engine = engine

    def run(self, inputs: Arrays) -> Arrays:
        start = time.perf_counter()
        answer = self._engine.run(inputs)
        self.times_s.append(time.perf_counter() - start)
        return answer


def in_process(threads: EngineThreads, batches: list[Arrays], rate: float, seconds: float) -> float:
    """Mean in ms of a call of the engine, called `rate` times a second."""
    [engine] = threads.engines
    assert isinstance(engine, Timed)
    connections = Connections(lambda: EngineChannel(threads, lambda _: None), IN_FLIGHT // BATCH)
    requests = itertools.cycle(map(Payload, batches))
    driver = Driver(connections, requests, timeout_s=TIMEOUT_S, on_outcome=lambda _: None)
    first = len(engine.times_s)
    times = schedule(Distribution.CONSTANT, rate, WARMUP_S + seconds, seed=0).tolist()
    driver.run(OpenLoopArrivals(times, time.monotonic_ns()), lambda _: None)
    connections.close()
    return float(np.mean(engine.times_s[first + math.ceil(WARMUP_S * rate) :])) * 1e3


def served(url: str, entry: Entry, request_batch: int, seconds: float) -> tuple[float, float]:
    """Mean in ms of compute_infer of an execution of 8 samples by Triton's statistics, and such executions a second."""
    control = Control(f"http://{url}")
    command = [sys.executable, "-m", "servemark", "run", entry.workload, "--engine", entry.engine, "-u", control.url]
    command += ["-b", str(request_batch), "--concurrency", str(IN_FLIGHT // request_batch), "--json"]
    with tempfile.TemporaryDirectory() as out:
        before = _executions(control, entry.model)
        flags = ["--duration", f"{seconds:g}", "--warmup", f"{WARMUP_S}", "--out", out]
        done = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        after = _executions(control, entry.model)
    if not done.stdout or count_of(json.loads(done.stdout), "errors.count"):
        raise SystemExit(f"the run failed:\n{done.stderr}")
    count = after.count - before.count
    spent_s = WARMUP_S + json.loads(done.stdout)["scenario"]["measured_s"]
    return (after.compute_infer_ns - before.compute_infer_ns) / count / 1e6, count / spent_s


def backend_alone(rate: float, seconds: float) -> float:
    """Mean in ms of compute_infer of an identity model on Triton's Python backend, asked `rate` times a second."""
    with comparisons.triton("identity") as at:
        control = Control(f"http://{at.http}")
        locust_load.measure(at, Load(rate=rate), seconds)
        found = _executions(control, "identity", 1)
    return found.compute_infer_ns / found.count / 1e6


def _executions(control: Control, model: str, batch: int = BATCH) -> Executions:
    """Return the counts of the model's executions of `batch` samples."""
    statistics = control.statistics(model)
    assert statistics is not None
    sizes = {each["batch_size"]: each["compute_infer"] for each in statistics.get("batch_stats", [])}
    found = sizes.get(batch, {"count": 0, "ns": 0})
    return Executions(int(found["count"]), int(found["ns"]))


def batches_of(workload: Workload) -> list[Arrays]:
    """Batches of the workload's own samples."""
    samples = workload.samples(np.random.default_rng(0))
    return [stack([next(samples) for _ in range(BATCH)], workload.inputs) for _ in range(DISTINCT)]


def main() -> None:
    """Print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="ranking")
    parser.add_argument("--engine", default="onnxruntime")
    parser.add_argument("--request-batch", type=int, default=BATCH, choices=(1, 2, 4, 8))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    workload = get(options.workload)
    export(workload, options.engine, MODEL_REPOSITORY)
    entry = Entry(MODEL_REPOSITORY, workload.name, options.engine)
    model = configuration(entry, SETTINGS)
    batches = batches_of(workload)
    with (
        EngineThreads([lambda: Timed(load_model(model, entry.version, "cpu"))]) as threads,
        repository_with(MODEL_REPOSITORY, [entry], SETTINGS) as repository,
        servers.open_server("embedded", Path(repository), [entry.model]) as server,
    ):
        _, rate = served(server.http, entry, options.request_batch, options.seconds)
        print(f"ms of {BATCH} samples of {entry.model} in requests of {options.request_batch}, backend against engine,")
        print(f"at {rate:.4g} executions/s:", flush=True)
        found = interleave(
            lambda: served(server.http, entry, options.request_batch, options.seconds)[0],
            lambda: in_process(threads, batches, rate, options.seconds),
            options.rounds,
        )
    print(f"ratio backend / engine: {ratio_of_pairs(found)}")
    more = float(np.mean([backend - engine for backend, engine in found]))
    alone = backend_alone(rate, options.seconds)
    print(f"the backend takes {more:.3g} ms longer; a model that does nothing takes {alone:.3g} ms in it at that rate")


if __name__ == "__main__":
    main()
