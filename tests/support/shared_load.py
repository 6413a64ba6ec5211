"""Load whose tensors lie in shared memory, from this process: every answer with the inputs that it is the answer to."""

import dataclasses
import itertools
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np

from loadgen.sut.channel import Outcome
from loadgen.sut.target import Target
from loadgen.targets.http import control_at
from loadgen.targets.open import open_target, served_workload
from loadgen.transport.access import NO_ACCESS
from servemark.documents.request import RunRequest
from servemark.workload import Arrays, Sample, Tensor, Workload, get, stack
from servers import Server
from tests.golden.load import TargetLoad
from tests.support.load_config import config
from tests.support.small_models import DATATYPES

CONCURRENCY = 4
WIRES = {"http": (), "grpc": ("--protocol", "grpc"), "streaming": ("--protocol", "grpc", "--streaming")}


def of_tensors(name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], most: int = 0) -> Workload:
    """A workload of these tensors; a size that varies is from 1 to `most`."""

    def samples(rng: np.random.Generator) -> Iterator[Sample]:
        while True:
            yield {
                t.name: rng.integers(0, 2 if t.datatype == "BOOL" else 100, _shape(rng, t, most)).astype(t.dtype)
                for t in inputs
            }

    return dataclasses.replace(get("ncf_tiny"), name=name, inputs=inputs, outputs=outputs, samples=samples, max_batch=8)


def _shape(rng: np.random.Generator, tensor: Tensor, most: int) -> tuple[int, ...]:
    return tuple(int(rng.integers(1, most + 1)) if size == -1 else size for size in tensor.shape)


PASSTHROUGH = of_tensors(
    "passthrough",
    tuple(Tensor(f"IN_{name}", name, (2, 3)) for name in DATATYPES),
    tuple(Tensor(f"OUT_{name}", name, (2, 3)) for name in DATATYPES),
)
TOTAL = of_tensors("total", (Tensor("X", "FP32", (-1,)),), (Tensor("TOTAL", "FP32", (1,)),), most=40)
IDENTITY = of_tensors("golden", (Tensor("INPUT0", "FP32", (64,)),), (Tensor("OUTPUT0", "FP32", (64,)),))


def batches(workload: Workload, batch: int, count: int) -> list[Arrays]:
    """The first inputs of a run with seed 0."""
    samples = list(itertools.islice(workload.samples(np.random.default_rng(0)), batch * count))
    return [stack(samples[batch * index :][:batch], workload.inputs) for index in range(count)]


def drive(target: Target, *, distinct: int = 20, requests: int = 100, golden: bool = True) -> list[Outcome]:
    """Send the first so many requests again and again; each counts as golden, if any, with its number as the row."""
    target.prepare()
    load = TargetLoad(target, distinct, numbered=golden, timeout_s=30)
    return load.closed(CONCURRENCY, 0, at_least=requests).outcomes


def answers(outcomes: list[Outcome], outputs: tuple[Tensor, ...]) -> dict[int, Any]:
    """Number of the request -> its outputs; all answers to one request must be the same bytes."""
    found: dict[int, Any] = {}
    for outcome in outcomes:
        assert outcome.error is None, outcome
        assert outcome.response is not None
        arrays = outcome.response.arrays(outputs)
        described = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}
        [number] = outcome.payload.golden_rows
        assert found.setdefault(number, described) == described
    return found


def host(server: Server, wire: str) -> str:
    return server.http if wire == "http" else server.grpc


def target(server: Server, workload: Workload, wire: str, memory: str, *flags: str) -> Target:
    load = [*WIRES[wire], "--url", host(server, wire), "--shared-memory", memory, "--concurrency", "4", *flags]
    found = open_target(config(workload.name, *load, lookup=lambda _: workload))
    assert found.shared_memory == memory
    return found


def outputs(
    server: Server, workload: Workload, wire: str, memory: str, batch: int, *flags: str, distinct: int = 20
) -> dict[int, Any]:
    """Return the answers to the first requests."""
    with closing(target(server, workload, wire, memory, "--batch-size", str(batch), *flags)) as under_test:
        return answers(drive(under_test, distinct=distinct, requests=5 * distinct), workload.outputs)


def served(server: Server, name: str, wire: str) -> Workload:
    """Return the workload that a server's metadata describes."""
    url = f"{'http' if wire == 'http' else 'grpc'}://{host(server, wire)}"
    return served_workload(control_at(url, NO_ACCESS, RunRequest().server), name, RunRequest().inputs)
