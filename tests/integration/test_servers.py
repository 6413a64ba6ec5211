"""Real Tritons from the wheel: every engine answers what numpy answers, over both protocols."""

import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import psutil
import pytest

from servers import Server, open_server
from tests.support.small_models import FloatArray, affine, expected
from tests.support.triton import START_S, triton_only

pytestmark = triton_only

MODELS = ["affine_onnxruntime", "affine_pytorch", "affine_openvino", "affine_tensorflow"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("model_repo")
    affine(root, "onnxruntime", queue_delay_us=100_000)  # long enough that requests meet in a dynamic batch
    affine(root, "pytorch")
    affine(root, "openvino", instances=2)
    affine(root, "tensorflow")
    return root


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    with open_server("embedded", repository, MODELS, start_timeout_s=START_S) as server:
        yield server


def infer(server: Server, model: str, x: FloatArray, protocol: str = "http") -> Any:
    """The answer of a model."""
    import tritonclient.grpc
    import tritonclient.http

    library: ModuleType = {"http": tritonclient.http, "grpc": tritonclient.grpc}[protocol]
    tensor = library.InferInput("X", x.shape, "FP32")
    tensor.set_data_from_numpy(x)
    with library.InferenceServerClient(getattr(server, protocol)) as client:
        return client.infer(model, [tensor])


def rows(seed: int, count: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((count, 8), dtype=np.float32)


def metrics(server: Server) -> str:
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=10) as page:
        return str(page.read().decode())


def metric(server: Server, name: str, model: str) -> float:
    lines = [line for line in metrics(server).splitlines() if line.startswith(name) and f'model="{model}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)  # failures have a line for each reason


def listening(process: psutil.Process) -> set[tuple[str, int]]:
    connections = process.net_connections("tcp")
    return {(c.laddr.ip, c.laddr.port) for c in connections if c.laddr and c.status == psutil.CONN_LISTEN}


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_answers_equal_numpy(server: Server, protocol: str, model: str, count: int) -> None:
    x = rows(count, count)
    answer = infer(server, model, x, protocol)
    for name, wanted in expected(x).items():
        np.testing.assert_allclose(answer.as_numpy(name), wanted, rtol=1e-5, atol=1e-5)


def test_requests_of_a_dynamic_batch_get_their_own_answers(server: Server) -> None:
    model = MODELS[0]
    executions = metric(server, "nv_inference_exec_count", model)
    batches = [rows(100 + i, 1 + i % 3) for i in range(24)]
    with ThreadPoolExecutor(len(batches)) as pool:
        answers = list(pool.map(lambda x: infer(server, model, x), batches))
    for x, answer in zip(batches, answers, strict=True):
        np.testing.assert_allclose(answer.as_numpy("SCORES"), expected(x)["SCORES"], rtol=1e-5, atol=1e-5)
    assert metric(server, "nv_inference_exec_count", model) - executions < len(batches)  # they really met


def test_what_runs_is_published(server: Server) -> None:
    labels = 'device="cpu",engine="onnxruntime",model="affine_onnxruntime",provider="CPUExecutionProvider"'
    assert f"servemark_engine_info{{{labels}}} 1" in metrics(server)


def test_server_is_on_loopback_only(server: Server) -> None:
    ports = {int(endpoint.rpartition(":")[2]) for endpoint in (server.http, server.grpc, str(server.metrics))}
    addresses = [address for child in psutil.Process().children(recursive=True) for address in listening(child)]
    hosts = {host.removeprefix("::ffff:") for host, port in addresses if port in ports}
    assert hosts == {"127.0.0.1"}
