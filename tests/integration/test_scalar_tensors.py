"""One value per sample, in and out, against a real Triton: each engine, each protocol, with and without batches."""

from collections.abc import Iterator

import numpy as np
import pytest

import exporters
from loadgen.targets.any_model import served_workload
from loadgen.targets.http import control_at
from loadgen.transport.access import NO_ACCESS
from servemark.documents.request import RunRequest
from servemark.repository.entry import Entry
from servemark.workload import Workload
from servers import Server, open_server
from tests.support.scalar_models import ALONE, BATCHED, ENGINES, expected, write_alone
from tests.support.shared_load import WIRES, answers, batches, drive, target
from tests.support.triton import START_S, needs_triton

BY_HAND = "by_hand"
DISTINCT = 5

pytestmark = [needs_triton, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    repository = tmp_path_factory.mktemp("model_repo")
    entries = [write_alone(repository, engine) for engine in ENGINES]
    entries.append(Entry(repository, BATCHED.name, "onnxruntime"))
    exporters.export(BATCHED, "onnxruntime", repository)
    config = entries[-1].config.read_text().replace(f'"{entries[-1].model}"', f'"{BY_HAND}"')
    entries[-1].link(repository / BY_HAND, config)
    models = [*(each.model for each in entries), BY_HAND]
    with open_server("embedded", repository, models, start_timeout_s=START_S) as triton:
        yield triton


WAYS = [("onnxruntime", wire, memory) for wire in WIRES for memory in ("none", "system")]
"""Triton itself adds and removes the dimension where there are batches; without them each engine's backend does."""
CASES = [
    *((BATCHED, *way) for way in WAYS),
    *((ALONE, *way) for way in WAYS),
    *((ALONE, engine, "http", "none") for engine in ENGINES if engine != "onnxruntime"),
]


@pytest.mark.parametrize(("asked", "engine", "wire", "memory"), CASES)
def test_each_answer_is_right(server: Server, asked: Workload, engine: str, wire: str, memory: str) -> None:
    batch = 3 if asked.batched else 1
    under_test = target(server, asked, wire, memory, "--engine", engine, "--batch-size", str(batch))
    try:
        found = answers(drive(under_test, distinct=DISTINCT, requests=2 * DISTINCT), asked.outputs)
    finally:
        under_test.close()
    assert sorted(found) == [*range(DISTINCT)]
    for number, inputs in enumerate(batches(asked, batch, DISTINCT)):
        wanted = expected(inputs)
        for name, (kind, shape, raw) in found[number].items():
            assert shape == wanted[name].shape or not asked.batched
            np.testing.assert_allclose(np.frombuffer(raw, kind), wanted[name].ravel(), rtol=1e-6)


@pytest.mark.parametrize("wire", ["http", "grpc"])
def test_an_entry_written_by_hand_has_the_shapes_that_triton_tells(server: Server, wire: str) -> None:
    url = f"http://{server.http}" if wire == "http" else f"grpc://{server.grpc}"
    asked = served_workload(control_at(url, NO_ACCESS, RunRequest().server), BY_HAND, RunRequest().inputs)
    assert [tensor.shape for tensor in (*asked.inputs, *asked.outputs)] == [(3,), (1,), (1,), (2,)]
    under_test = target(server, asked, wire, "system", "--batch-size", "2")
    try:
        found = answers(drive(under_test, distinct=DISTINCT, requests=DISTINCT), asked.outputs)
    finally:
        under_test.close()
    assert {each["label"][1] for each in found.values()} == {(2, 1)}
