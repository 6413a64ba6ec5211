"""A load, its server, and those that make it: servemark's own generator and its peers, their CPU metered alike.

The CPU that a generator takes for each request is seen from outside. A child's CPU time is read (/proc/PID/stat by
psutil, all threads and its own children) at the edges of an interval in the middle of its run, and so is the server's
counter of requests. Start-up, connecting, imports and the final report lie outside.
"""

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from benchmarks.rig.pairs import Figures
from loadgen.kserve import grpc_inference, http_messages
from loadgen.kserve.control import Control
from loadgen.peers.programs import PEERS, H2load, Peer, PeerLoad, PerfAnalyzer
from servemark.figures.registry import count_of, value_of
from servemark.machine.scheduling import hold_awake
from servemark.paths import CHECKOUT
from servemark.results import directory
from servemark.workload import Tensor

VECTOR, IMAGE = (64,), (3, 224, 224)
"""Shapes of the identity models' input."""
START_WITHIN_S = 60.0
END_WITHIN_S = 180.0
SETTLE_SHARE, MEASURED_SHARE = 0.2, 0.6
"""Of the run's length: what passes after the first answers, and what is measured then."""
FIRST_ANSWERS = 20
"""More than either generator asks before its load begins."""
LOCUSTFILE = "identity_locustfile.py"
WARMUP_S = 1.0
OUTPUT_BYTES = 3 * 224 * 224 * 4
"""Shared memory for an output; what perf_analyzer reserves otherwise holds none of the image model's."""
BOTH, NEITHER = "both", "neither"


@dataclass(frozen=True)
class Load:
    """A closed loop of `concurrency` on an identity model."""

    model: str = "identity"
    protocol: str = "http"
    streaming: bool = False
    shared_memory: str = "none"
    tensor_format: str = "binary"
    """Of inputs and outputs, over HTTP."""
    concurrency: int = 32
    one_input: tuple[int, ...] | None = None
    """Shape of the one input that is sent again and again, as perf_analyzer does; None: many different ones."""


@dataclass(frozen=True)
class Endpoints:
    """Addresses of a server, each as "host:port"."""

    http: str
    grpc: str = ""

    def of(self, load: Load) -> str:
        """The one for a load's protocol."""
        return self.grpc if load.protocol == "grpc" else self.http

    def counter(self, model: str) -> Callable[[], int]:
        """Return a function that counts the successful requests by the server's own statistics."""
        control = Control(f"http://{self.http}")

        def answered() -> int:
            statistics = control.statistics(model)
            if statistics is None:
                raise SystemExit(f"{self.http} gives no statistics of {model}")
            return int(statistics["inference_stats"]["success"]["count"])

        return answered


class Reading(NamedTuple):
    """CPU seconds that were used and requests that were answered until now."""

    cpu_s: float
    requests: int


class Run(NamedTuple):
    """A child that has ended."""

    output: str
    code: int
    cpu_us: float
    """For each request; NaN where it failed or ended too early to say."""


def metered(
    command: Sequence[str],
    answered: Callable[[], int],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Run:
    """Run a generator whose load lasts `seconds`; `answered` is the server's count of requests."""
    with tempfile.TemporaryFile("w+") as output:
        before = answered()
        process = subprocess.Popen(command, env=environment, cwd=cwd, stdout=output, stderr=subprocess.STDOUT)
        try:
            edges = _edges(process, before, answered, seconds)
            code = process.wait(END_WITHIN_S)
        finally:
            process.kill()
        output.seek(0)
        return Run(output.read(), code, cpu_us(*edges) if edges else math.nan)


def cpu_us(first: Reading, last: Reading) -> float:
    """µs of CPU for each request between two readings; NaN where nothing was answered."""
    requests = last.requests - first.requests
    return (last.cpu_s - first.cpu_s) / requests * 1e6 if requests > 0 else math.nan


def used_s(pid: int) -> float:
    """CPU seconds of a process and of the children it has."""
    process = psutil.Process(pid)
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def _edges(
    process: "subprocess.Popen[bytes]", before: int, answered: Callable[[], int], seconds: float
) -> tuple[Reading, Reading] | None:
    """Both readings, or None where the process ended before the second."""
    deadline = time.monotonic() + START_WITHIN_S
    while answered() < before + FIRST_ANSWERS:
        if process.poll() is not None or time.monotonic() > deadline:
            return None
        time.sleep(0.02)
    try:
        time.sleep(SETTLE_SHARE * seconds)
        first = Reading(used_s(process.pid), answered())
        time.sleep(MEASURED_SHARE * seconds)
        used = used_s(process.pid)
    except psutil.NoSuchProcess:
        return None
    return (first, Reading(used, answered())) if process.poll() is None else None


def measure_servemark(server: Endpoints, load: Load, seconds: float, *, checkout: Path = CHECKOUT) -> Figures:
    """Run the generator of a checkout once, as a user would start Locust; it must not have lost a request."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = locust_command(server, load, seconds, Path(folder), checkout)
        if load.one_input is not None:
            image = np.random.default_rng(0).random(load.one_input, dtype=np.float32)
            np.savez(Path(folder, "input.npz"), INPUT0=image)
            arguments += ["--input-data", folder]
        # Locust puts the working directory first on sys.path.
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        done = metered([sys.executable, *arguments], server.counter(load.model), seconds, environment, checkout)
        results = list(Path(folder, "results").glob("*/result.json"))
        if not results:
            raise SystemExit(f"locust failed ({done.code}):\n{done.output}")
        result = directory.read(results[0])
    if count_of(result, "errors.count"):
        raise SystemExit(f"requests failed: {result['details']['errors']}")
    throughput, p50 = value_of(result, "throughput.requests") or 0.0, value_of(result, "latency.p50") or 0.0
    return Figures(throughput, p50, done.cpu_us)


def locust_command(server: Endpoints, load: Load, seconds: float, folder: Path, checkout: Path) -> list[str]:
    """Return what Python is started with, in the checkout; the result is written below `folder`."""
    [locustfile] = (checkout / "benchmarks").rglob(LOCUSTFILE)
    found = ["-m", "locust", "-f", str(locustfile), "--headless", "--only-summary", "--skip-log-setup"]
    # The harness decides for both sides whether cores idle.
    found += ["--cpu-latency-qos", "off", "--warmup", f"{WARMUP_S:g}", "--duration", f"{seconds:g}"]
    return [*found, "--out", f"{folder}/results", *locust_flags(load, server.of(load))]


def locust_flags(load: Load, url: str) -> list[str]:
    """Return Locust's arguments for this load."""
    arguments = ["--host", f"{load.protocol}://{url}", "--model", load.model, "--model-name", load.model]
    arguments += ["--shared-memory", load.shared_memory]
    if load.streaming:
        arguments.append("--streaming")
    if load.tensor_format != "binary":
        arguments += ["--input-tensor-format", load.tensor_format, "--output-tensor-format", load.tensor_format]
    return [*arguments, "--users", str(load.concurrency)]


def peer(name: str, load: Load) -> Peer:
    """Return a generator as it makes this load."""
    if name == "h2load":
        return H2load(timed=load.concurrency == 1)
    if name != "perf_analyzer":
        return PEERS[name]
    flags = ["--streaming"] if load.streaming else []
    if load.tensor_format != "binary":
        flags += [f"--{each}-tensor-format={load.tensor_format}" for each in ("input", "output")]
    if load.shared_memory != "none":
        flags += [f"--shared-memory={load.shared_memory}", f"--output-shared-memory-size={OUTPUT_BYTES}"]
    return PerfAnalyzer(tuple(flags))


def peer_load(server: Endpoints, load: Load, seconds: float) -> PeerLoad:
    """Return the load as a generator is told it, with one request of noise."""
    shape = load.one_input or VECTOR
    inputs = {"INPUT0": np.random.default_rng(0).random((1, *shape), dtype=np.float32)}
    outputs, types = [Tensor("OUTPUT0", "FP32", shape)], {"INPUT0": "FP32"}
    if load.protocol == "grpc":
        request = grpc_inference.encode_request(load.model, inputs, outputs, types)
    else:
        request = http_messages.encode_request("localhost", load.model, inputs, outputs, types)
    return PeerLoad(
        f"{load.protocol}://{server.of(load)}", load.model, request, in_flight=load.concurrency, duration_s=seconds
    )


def refusal(name: str, load: Load) -> str | None:
    """Return the reason why a generator cannot make this load here; None if it can."""
    return peer(name, load).refusal(peer_load(Endpoints("", ""), load, 1))


def measure_peer(name: str, server: Endpoints, load: Load, seconds: float) -> Figures:
    """Run another generator once, told the same load on the same server. Raises PeerError."""
    runs = list[Run]()

    def run(command: Sequence[str]) -> str:
        runs.append(metered(command, server.counter(load.model), seconds))
        return runs[-1].output

    found = peer(name, load).measure(peer_load(server, load, seconds), run)
    if found.failed:
        raise SystemExit(f"{name}: {found.failed} requests failed")
    return Figures(found.requests_per_s, found.percentiles_ms.get(50, math.nan), runs[-1].cpu_us)


@contextmanager
def cores_awake(which: str) -> Iterator[None]:
    """Keep cores out of idle states for `both` sides and the server, or for `neither`. Raises SystemExit."""
    if which == NEITHER:
        yield
        return
    try:
        held = hold_awake()
    except OSError as error:
        raise SystemExit(f"--cores-awake {BOTH}: {error.filename}: {error.strerror}; run as root") from error
    try:
        yield
    finally:
        os.close(held)
