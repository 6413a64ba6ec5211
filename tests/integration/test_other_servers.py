"""Servers that are not Triton: a run by nothing but their word, or a description, whose answers are compared.

docs/reference/servers.md has what was found.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import pytest
from onnx import helper

from servemark.figures.registry import count_of, value_of
from servemark.workload import Tensor
from servers.launch.product_server import Environment, ProductServer
from servers.products import PRODUCTS, TRITON, Deployment
from tests.support.locust_run import run, the_result
from tests.support.onnx_models import model
from tests.support.result_checks import check_schema

MODEL = "org-affine"
START_S = 120.0


def affine(path: Path) -> Path:
    """Write the model."""
    nodes = [helper.make_node("Mul", ["x", "two"], ["twice"]), helper.make_node("Add", ["twice", "one"], ["y"])]
    onnx.save(model(nodes, {"x": ["batch", 2]}, ["y"], {"two": np.float32(2), "one": np.float32(1)}), path)
    return path


@contextmanager
def serving(name: str, folder: Path) -> Iterator[dict[str, str]]:
    """A server of the model, and its URLs by protocol."""
    environment = Environment(name)
    if not environment.installed:
        environment.install()
    artifact = affine(folder / "model.onnx")
    x, y = Tensor("x", "FP32", (2,)), Tensor("y", "FP32", (2,))
    deployment = Deployment(MODEL, artifact, [x], [y], max_batch=8, threads=1, queue_delay_s=0.001)
    with ProductServer(name, deployment, start_timeout_s=START_S) as server:
        assert server.root
        members = psutil.Process(server.root).children(recursive=True)
        listening = [each.laddr for p in members for each in p.net_connections() if each.status == psutil.CONN_LISTEN]
        assert listening
        assert {address.ip for address in listening} <= {"127.0.0.1", "::ffff:127.0.0.1"}
        yield {"http": f"http://{server.http}", "grpc": f"grpc://{server.grpc}"}


pytestmark = [pytest.mark.peer, pytest.mark.slow]

OTHERS = {name: about for name, about in PRODUCTS.items() if name != TRITON}
ENDPOINTS = [(name, about.endpoint_type) for name, about in OTHERS.items() if about.endpoint_type]
DATA = {"data": [{"x": [1, 2]}, {"x": [3, 4]}], "validation_data": [{"y": [3, 5]}, {"y": [7, 9]}]}


@pytest.fixture(scope="module", params=[name for name, about in OTHERS.items() if not about.endpoint_type])
def urls(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with serving(request.param, tmp_path_factory.mktemp(request.param)) as found:
        yield found


def driven(out: Path, *flags: str) -> Any:
    """The result of a run whose answers are all right."""
    (out / "in.json").write_text(json.dumps(DATA))
    load = ["--model-name", MODEL, "--users", "2", "--duration", "2", "--warmup", "0.5"]
    done = run("any_model", *load, "--input-data", str(out / "in.json"), "--out", str(out), *flags)
    assert done.returncode in {0, 2}, done.stderr
    result = the_result(out)
    check_schema(result)
    assert (value_of(result, "errors.count"), value_of(result, "outputs.max_abs_error")) == (0, 0)
    assert count_of(result, "requests.answered") > 10
    return result


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("batch", ["1", "4"])
def test_a_run(urls: dict[str, str], protocol: str, batch: str, tmp_path: Path) -> None:
    result = driven(tmp_path, "--url", urls[protocol], "--batch-size", batch)
    if protocol == "http":
        assert result["resolved"]["input_tensor_format"] == "json"


@pytest.mark.parametrize(("name", "endpoint"), [*ENDPOINTS, ("kserve", "kserve-v1")])
def test_a_run_by_an_endpoint_type(name: str, endpoint: str, tmp_path: Path) -> None:
    batched = "" if endpoint == "predict" else "-1,"
    flags = ["--endpoint-type", endpoint, "--input", f"x:FP32:{batched}2", "--output", f"y:FP32:{batched}2"]
    with serving(name, tmp_path) as urls:
        result = driven(tmp_path, *flags, "--url", urls["http"])
    assert result["request"]["server"]["endpoint_type"] == endpoint
