"""Servers that are not Triton, each in an environment of its own: the model answers y = 2 x + 1.

`python -m venv` and pip make the environments, once, in the user's cache folder.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.locust_run import started, until
from tests.support.web import free_port, is_up

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "servemark" / "peers"
INSTALL_S = 1200
MODEL = "org-affine"
TENSOR = {"datatype": "FP32", "shape": [-1, 2]}

MLSERVER_MODEL = """
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse

class Affine(MLModel):
    async def predict(self, payload):
        x = NumpyCodec.decode_input(payload.inputs[0])
        y = NumpyCodec.encode_output("y", (2 * x + 1).astype("float32"))
        return InferenceResponse(model_name=self.name, outputs=[y])
"""
KSERVE_MODEL = """
import sys
from kserve import InferOutput, InferResponse, Model, ModelServer

TENSOR = {"datatype": "FP32", "shape": [-1, 2]}

class Affine(Model):
    def __init__(self, name):
        super().__init__(name)
        self.ready = True

    async def get_input_types(self):
        return [{"name": "x", **TENSOR}]

    async def get_output_types(self):
        return [{"name": "y", **TENSOR}]

    def predict(self, payload, headers=None, response_headers=None):
        if isinstance(payload, dict):  # the V1 protocol
            return {"predictions": [[2 * value + 1 for value in row] for row in payload["instances"]]}
        y = (2 * payload.inputs[0].as_numpy() + 1).astype("float32")
        found = InferOutput("y", list(y.shape), "FP32")
        found.set_data_from_numpy(y, binary_data=False)
        return InferResponse(payload.id or "none", self.name, [found])

http, grpc = map(int, sys.argv[1:])
ModelServer(http_port=http, grpc_port=grpc, workers=1).start([Affine("org-affine")])
"""
LITSERVE_MODEL = """
import sys
import litserve

class Affine(litserve.LitAPI):
    def setup(self, device):
        pass

    def decode_request(self, request):
        return request["x"]

    def predict(self, x):
        return [2 * value + 1 for value in x]

    def encode_response(self, y):
        return {"y": y}

if __name__ == "__main__":
    server = litserve.LitServer(Affine(), accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False)
"""
BENTOML_MODEL = """
import bentoml

@bentoml.service(workers=1)
class Affine:
    @bentoml.api
    def rank(self, x: list[float]) -> list[float]:
        return [2 * value + 1 for value in x]
"""
MOSEC_MODEL = """
from mosec import Server, Worker

class Affine(Worker):
    def forward(self, data):
        return {"y": [2 * value + 1 for value in data["x"]]}

if __name__ == "__main__":
    server = Server()
    server.append_worker(Affine)
    server.run()
"""


@dataclass(frozen=True)
class Peer:
    """A server: what pip installs, and the command that serves the model of a folder at two ports."""

    requirement: str
    command: Callable[[Path, Path, int, int], list[str]]
    ready: str = f"/v2/models/{MODEL}/ready"
    endpoint: str | dict[str, object] = ""
    """Endpoint type, or its description, that it speaks besides KServe v2 or instead of it."""
    kserve_v2: bool = True

    def python(self) -> Path:
        """The interpreter of its environment, which is made where it is not there."""
        folder = CACHE / self.requirement.replace("==", "-")
        program = folder / "bin" / "python"
        done = folder / "installed"
        if not done.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=INSTALL_S)
            pip = [str(program), "-m", "pip", "install", "-q", self.requirement]
            subprocess.run(pip, check=True, timeout=INSTALL_S)
            done.touch()
        return program


def _mlserver(python: Path, folder: Path, http: int, grpc: int) -> list[str]:
    tensors = {"inputs": [{"name": "x", **TENSOR}], "outputs": [{"name": "y", **TENSOR}]}
    settings = {"name": MODEL, "implementation": "affine.Affine", **tensors}
    ports = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_port": free_port()}
    (folder / "affine.py").write_text(MLSERVER_MODEL)
    (folder / "model-settings.json").write_text(json.dumps(settings))
    (folder / "settings.json").write_text(json.dumps({**ports, "parallel_workers": 0, "debug": False}))
    return [str(python.parent / "mlserver"), "start", str(folder)]


def _kserve(python: Path, folder: Path, http: int, grpc: int) -> list[str]:
    (folder / "affine.py").write_text(KSERVE_MODEL)
    return [str(python), str(folder / "affine.py"), str(http), str(grpc)]


def _litserve(python: Path, folder: Path, http: int, _: int) -> list[str]:
    (folder / "affine.py").write_text(LITSERVE_MODEL)
    return [str(python), str(folder / "affine.py"), str(http)]


def _bentoml(python: Path, folder: Path, http: int, _: int) -> list[str]:
    (folder / "affine.py").write_text(BENTOML_MODEL)
    where = ["--host", "127.0.0.1", "--port", str(http), "--working-dir", str(folder)]
    return [str(python.parent / "bentoml"), "serve", "affine:Affine", *where]


def _mosec(python: Path, folder: Path, http: int, _: int) -> list[str]:
    (folder / "affine.py").write_text(MOSEC_MODEL)
    return [str(python), str(folder / "affine.py"), "--address", "127.0.0.1", "--port", str(http)]


def described(path: str, pointer: str) -> dict[str, object]:
    """Describe an endpoint that takes one sample as an object."""
    request = {"path": path, "body": "{{object}}"}
    return {"about": "a server of the tests", "request": request, "answer": {"outputs": {"y": pointer}}}


PEERS = {
    "mlserver": Peer("mlserver==1.7.1", _mlserver),
    "kserve": Peer("kserve==0.21.0", _kserve, endpoint="kserve-v1"),
    "litserve": Peer("litserve==0.2.19", _litserve, "/health", "predict", kserve_v2=False),
    "bentoml": Peer("bentoml==1.4.40", _bentoml, "/readyz", described("/rank", ""), kserve_v2=False),
    "mosec": Peer("mosec==0.9.8", _mosec, "/", described("/inference", "/y"), kserve_v2=False),
}


@contextmanager
def serving(name: str, folder: Path) -> Iterator[dict[str, str]]:
    """A server of the model, and its URLs by protocol."""
    peer, (http, grpc) = PEERS[name], (free_port(), free_port())
    command = peer.command(peer.python(), folder, http, grpc)
    with started(command, folder / "log") as process:
        ready = f"http://127.0.0.1:{http}{peer.ready}"
        until(lambda: is_up(ready) or process.poll() is not None, f"{name} to be ready")
        assert process.poll() is None, (folder / "log").read_text()
        yield {"http": f"http://127.0.0.1:{http}", "grpc": f"grpc://127.0.0.1:{grpc}"}
