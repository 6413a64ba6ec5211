"""Servers that are not Triton, each in its own environment, which is made where it is not there: y = 2 x + 1."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import psutil
from onnx import helper

from servemark.workload import Tensor
from servers.launch.environments import Environment
from servers.launch.product_server import ProductServer
from servers.products import Deployment
from tests.support.onnx_models import model

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
