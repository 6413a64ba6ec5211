"""Another generator under the rig: told the same load on the same server, its CPU metered in the same way."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from benchmarks.rig import cpu_meter
from benchmarks.rig.load import VECTOR, Endpoints, Figures, Load
from loadgen.kserve import grpc_inference, http_messages
from loadgen.peers.programs import PEERS, H2load, Peer, PeerLoad, PerfAnalyzer
from servemark.machine.scheduling import hold_awake
from servemark.workload import Tensor

OUTPUT_BYTES = 3 * 224 * 224 * 4
"""Shared memory for an output; what perf_analyzer reserves otherwise holds none of the image model's."""
BOTH, NEITHER = "both", "neither"


def peer(name: str, load: Load) -> Peer:
    """Return a generator as it makes this load."""
    if name == "h2load":
        return H2load(timed=load.concurrency == 1)
    return PerfAnalyzer(perf_analyzer_flags(load)) if name == "perf_analyzer" else PEERS[name]


def perf_analyzer_flags(load: Load) -> tuple[str, ...]:
    """Return what perf_analyzer is told beside the load itself."""
    flags = ["--streaming"] if load.streaming else []
    if load.tensor_format != "binary":
        flags += [f"--{each}-tensor-format={load.tensor_format}" for each in ("input", "output")]
    if load.shared_memory != "none":
        flags += [f"--shared-memory={load.shared_memory}", f"--output-shared-memory-size={OUTPUT_BYTES}"]
    return tuple(flags)


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
        f"{load.protocol}://{server.of(load)}",
        load.model,
        request,
        in_flight=load.concurrency,
        duration_s=seconds,
    )


def refusal(name: str, load: Load) -> str | None:
    """Return the reason why a generator cannot make this load here; None if it can."""
    return peer(name, load).refusal(peer_load(Endpoints("", ""), load, 1))


def measure(name: str, server: Endpoints, load: Load, seconds: float) -> Figures:
    """Run it once. Raises PeerError."""
    cpu_us = float("nan")

    def run(command: Sequence[str]) -> str:
        nonlocal cpu_us
        done = cpu_meter.run(command, server.counter(load.model), seconds)
        cpu_us = done.cpu_us
        return done.output

    found = peer(name, load).measure(peer_load(server, load, seconds), run)
    if found.failed:
        raise SystemExit(f"{name}: {found.failed} requests failed")
    p50_ms = found.percentiles_ms.get(50, float("nan"))
    return Figures(found.requests_per_s, p50_ms, cpu_us)


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
