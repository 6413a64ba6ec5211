"""What a Triton backend adds to its engine: compute_infer of an executed batch against the same engine in this process.

    python -m benchmarks.backend_overhead [--workload ranking] [--request-batch 8] [--pairs 5] [--seconds 3]

In turns: a closed loop on the embedded Triton, whose statistics say how long an execution of 8 samples took inside the
backend, and the same loop on the engine here, where each call is timed. (Called without a pause, a small model would
stay in the processor's caches, which it cannot in a server.) Requests of 8 samples are executed as they are; with
`--request-batch 1` Triton joins requests, and the backend concatenates them. The ratio's aim is at most 1.15.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

import servers
from benchmarks.pairs import interleave
from exporters import export
from loadgen.arrivals import ClosedLoop
from loadgen.channel import Payload
from loadgen.driver import Driver
from loadgen.in_process import EngineChannel
from loadgen.wire.control import Control
from loadgen.workers import Engine, Workers
from servemark.artifacts import Arrays, Entry
from servemark.cli.in_process import configuration
from servemark.cli.settings import repository_with
from servemark.model_config import Settings
from servemark.models import Workload, get, stack
from servemark.paths import MODEL_REPOSITORY
from servemark.ratios import ratio_of_pairs
from servers.model import load_model

BATCH = 8
IN_FLIGHT = 2 * BATCH
"""Samples on their way: one batch in execution, one that waits."""
WARMUP_S = 0.5
TIMEOUT_S = 300
DISTINCT = 16
SETTINGS = Settings(max_batch=BATCH, queue_delay_us=2000)


class Timed:
    """An engine that notes how long its calls took, in seconds."""

    def __init__(self, engine: Engine) -> None:
        self.name, self.device, self.provider = engine.name, engine.device, engine.provider
        self.times_s: list[float] = []
        self._engine = engine

    def run(self, inputs: Arrays) -> Mapping[str, npt.NDArray[np.generic]]:
        """Answer one batch."""
        start = time.perf_counter()
        answer = self._engine.run(inputs)
        self.times_s.append(time.perf_counter() - start)
        return answer


def in_process(workers: Workers, batches: list[Arrays], seconds: float) -> float:
    """Mean in ms of a call of the engine, under the load that the served model gets."""
    [engine] = workers.engines
    assert isinstance(engine, Timed)
    driver = Driver(
        lambda: EngineChannel(workers, lambda _: None),
        itertools.cycle(map(Payload, batches)),
        timeout_s=TIMEOUT_S,
        max_in_flight=IN_FLIGHT // BATCH,
        on_outcome=lambda _: None,
        on_tick=lambda _: None,
    )
    end = time.monotonic_ns() + int((WARMUP_S + seconds) * 1e9)
    first = len(engine.times_s)
    driver.run(ClosedLoop(IN_FLIGHT // BATCH, lambda now: now >= end))
    driver.close()
    times_s = np.array(engine.times_s[first:])
    return float(times_s[np.cumsum(times_s) > min(WARMUP_S, times_s[:-1].sum())].mean()) * 1e3


def served(url: str, entry: Entry, request_batch: int, seconds: float) -> float:
    """Mean in ms of compute_infer of an execution of 8 samples, by Triton's statistics."""
    control = Control(f"http://{url}")
    command = [sys.executable, "-m", "servemark", "run", entry.workload, "--engine", entry.engine, "-u", control.url]
    command += ["-b", str(request_batch), "--concurrency", str(IN_FLIGHT // request_batch), "--json"]
    with tempfile.TemporaryDirectory() as out:
        before = _executions(control, entry)
        flags = ["--duration", f"{seconds:g}", "--warmup", f"{WARMUP_S}", "--out", out]
        done = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        after = _executions(control, entry)
    if not done.stdout or json.loads(done.stdout)["metrics"]["errors"]["count"]:
        raise SystemExit(f"the run failed:\n{done.stderr}")
    return (after[1] - before[1]) / (after[0] - before[0]) / 1e6


def _executions(control: Control, entry: Entry) -> tuple[int, int]:
    """How many executions of 8 samples there were, and their compute_infer in ns."""
    statistics = control.statistics(entry.model)
    assert statistics is not None
    sizes = {each["batch_size"]: each["compute_infer"] for each in statistics.get("batch_stats", [])}
    found = sizes.get(BATCH, {"count": 0, "ns": 0})
    return int(found["count"]), int(found["ns"])


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
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    workload = get(options.workload)
    export(workload, options.engine, MODEL_REPOSITORY)
    entry = Entry(MODEL_REPOSITORY, workload.name, options.engine)
    model = configuration(entry, SETTINGS)
    batches = batches_of(workload)
    with (
        Workers([lambda: Timed(load_model(model, entry.version, "cpu"))]) as workers,
        repository_with(MODEL_REPOSITORY, [entry], SETTINGS) as repository,
        servers.open_server("embedded", Path(repository), [entry.model]) as server,
    ):
        print(f"ms of {BATCH} samples of {entry.model} in requests of {options.request_batch}, backend against engine:")
        found = interleave(
            lambda: served(server.http, entry, options.request_batch, options.seconds),
            lambda: in_process(workers, batches, options.seconds),
            options.pairs,
        )
    print(f"ratio backend / engine: {ratio_of_pairs(found)}")


if __name__ == "__main__":
    main()
