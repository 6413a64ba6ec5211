"""Tensors in a GPU's memory, against the embedded Triton: the same outputs as inline. `make test-gpu`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadgen.kserve.control import Control
from servemark.figures.registry import value_of
from servemark.repository.model_config import Settings
from servers import Server, open_server
from tests.support.locust_run import run, the_result
from tests.support.shared_load import PASSTHROUGH, TOTAL, WIRES, batches, outputs
from tests.support.small_models import passthrough, total
from tests.support.triton import IDENTITY_LOCUSTFILE, copy_identity
from tools.gpu_session import unusable

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(240)]
pytest.importorskip("cuda.bindings.runtime")


@pytest.fixture(scope="module", params=["cpu", "cuda:0"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Models on the host, for which Triton copies, and on the GPU, which are handed the memory as it lies."""
    reason = unusable("onnxruntime")
    if request.param != "cpu" and reason:
        pytest.skip(reason)
    repository = tmp_path_factory.mktemp("model_repo")
    models = [passthrough(repository), total(repository)]
    for model in models:
        config = repository / model / "config.pbtxt"
        config.write_text(Settings(device=request.param).apply(config.read_text()))
    models.append(copy_identity(repository))
    with open_server("embedded", repository, models) as triton:
        yield triton


def registered(server: Server) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(
        Control(f"http://{server.http}").ask("/v2/cudasharedmemory/status").body
    )
    return found


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("batch", [1, 3])
def test_outputs_are_those_of_inline_tensors_bit_for_bit(server: Server, wire: str, batch: int) -> None:
    assert outputs(server, PASSTHROUGH, wire, "cuda", batch) == outputs(server, PASSTHROUGH, wire, "none", batch)
    assert registered(server) == []


@pytest.mark.parametrize("wire", WIRES)
def test_inputs_of_sizes_that_vary(server: Server, wire: str) -> None:
    found = outputs(server, TOTAL, wire, "cuda", 2)
    for number, inputs in enumerate(batches(TOTAL, 2, 20)):
        expected = inputs["X"].sum(axis=1, keepdims=True).astype("f4")  # whole numbers, exact in any order
        assert found[number]["TOTAL"] == ("<f4", (2, 1), expected.tobytes())


def test_a_whole_run(server: Server, tmp_path: Path) -> None:
    flags = ["--url", server.http, "--shared-memory", "cuda", "--model-name", "identity", "--concurrency", "4"]
    done = run(IDENTITY_LOCUSTFILE, *flags, "--duration", "2", "--out", str(tmp_path))
    result = the_result(tmp_path)
    assert (result["shared_memory"], result["resolved"]["shared_memory_device"]) == ("cuda", "cuda:0")
    assert value_of(result, "errors.count") == 0, done.stderr
