"""Server products: software that serves an exported ONNX model, so that servers can be compared over the same artifact.

`PRODUCTS` says what each can do, and how it is started; `NAME.txt` pins what its environment holds, and `apps/NAME.py`
is what runs there. Nothing in here starts a process: `servers.launch.product_server` does.
"""

import functools
import importlib.metadata
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servemark.quantities import one_of
from servemark.workload import Tensor

TRITON = "triton"
"""The product that `servers.open_server` starts, without an environment of its own."""
FOLDER = Path(__file__).parent
APPS = FOLDER / "apps"


@dataclass(frozen=True)
class Deployment:
    """A model with its configuration, the same for each product that serves it."""

    model: str
    """Its name in requests."""
    artifact: Path
    """The ONNX file."""
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    max_batch: int
    """Most samples that are computed together; 0: the tensors have no batch dimension."""
    instances: int = 1
    threads: int = 0
    """Threads of one inference; 0 leaves the number to ONNX Runtime."""
    queue_delay_s: float | None = None
    """Time that a request may wait for others, at least 1 ms, because most products join none without a delay. None:
    requests are not joined."""
    session_entries: Mapping[str, str] = field(default_factory=dict)
    """Entries of ONNX Runtime's session configuration."""


@dataclass(frozen=True)
class Place:
    """Place where a product runs: its interpreter, a folder with its application, and its ports on loopback."""

    python: Path
    folder: Path
    http_port: int
    grpc_port: int
    metrics_port: int

    @property
    def app(self) -> Path:
        """The application."""
        return self.folder / "app.py"

    def script(self, name: str) -> str:
        """Return the path of a program that pip has installed."""
        return str(self.python.parent / name)


def _app(_: Deployment, place: Place) -> list[str]:
    """The application itself, which reads the deployment."""
    return [str(place.python), str(place.app)]


@dataclass(frozen=True)
class Product:
    """Description of a product, and how it is started."""

    package: str
    """The distribution that pip installs."""
    guide: str
    """Address of the page by which it is set up here."""
    batching: str
    """Its way to join requests that wait; empty: it does not."""
    instances: str
    """Its own name of an instance of the model."""
    ready: str
    """The path, with {model}, that answers 200 once the model can be asked."""
    tried: str
    """The runs of this product itself in which servemark was tried with it."""
    endpoint_type: str = ""
    """Kind of its requests, as --endpoint-type names it; empty: KServe v2."""
    grpc: bool = False
    """True if it speaks KServe v2 over gRPC too."""
    binary_tensors: bool = False
    """True if tensors travel as bytes over HTTP too, not as JSON."""
    single_samples: bool = False
    """True if a request holds one sample."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of its process, each with {folder} for a folder of its own."""
    command: Callable[[Deployment, Place], list[str]] = _app
    """Writes what the product reads into the folder; returns the command that serves the model on loopback."""


@dataclass(frozen=True)
class Elsewhere:
    """A product that servemark loads by --url and does not start. None was tried: `reason` says why, and what was."""

    name: str
    endpoint_type: str
    """Kind of its requests, as --endpoint-type names it; empty: KServe v2."""
    grpc: bool
    """True if it is spoken to over gRPC too."""
    guide: str
    reason: str


ELSEWHERE = (
    Elsewhere(
        "OpenVINO Model Server",
        endpoint_type="",
        grpc=True,
        guide="https://docs.openvino.ai/2024/ovms_docs_rest_api_kfs.html",
        reason="neither PyPI nor Debian has it; the tests' own server speaks KServe v2",
    ),
    Elsewhere(
        "TensorFlow Serving",
        endpoint_type="tensorflow-serving",
        grpc=True,
        guide="https://www.tensorflow.org/tfx/serving/api_rest",
        reason="neither PyPI nor Debian has it; the tests' own server speaks both by its guide and messages",
    ),
    Elsewhere(
        "TorchServe",
        endpoint_type="torchserve",
        grpc=False,
        guide="https://docs.pytorch.org/serve/inference_api.html",
        reason="it is not maintained any more; the tests' own server speaks it by its guide",
    ),
)
"""Products of which PyPI and Debian have nothing that runs here, or that nobody maintains."""


def _bentoml(_: Deployment, place: Place) -> list[str]:
    where = ["--host", "127.0.0.1", "--port", str(place.http_port), "--working-dir", str(place.folder)]
    return [place.script("bentoml"), "serve", "app:Model", *where]


def _mlserver(deployment: Deployment, place: Place) -> list[str]:
    batching = (
        {"max_batch_size": deployment.max_batch, "max_batch_time": deployment.queue_delay_s}
        if deployment.queue_delay_s is not None
        else {}
    )
    model = {
        "name": deployment.model,
        "implementation": "app.Model",
        "inputs": _metadata(deployment.inputs, deployment.max_batch),
        "outputs": _metadata(deployment.outputs, deployment.max_batch),
        **batching,
    }
    server = {
        "host": "127.0.0.1",
        "http_port": place.http_port,
        "grpc_port": place.grpc_port,
        "metrics_port": place.metrics_port,
        "parallel_workers": deployment.instances,
        "debug": False,
    }
    (place.folder / "model-settings.json").write_text(json.dumps(model))
    (place.folder / "settings.json").write_text(json.dumps(server))
    return [place.script("mlserver"), "start", str(place.folder)]


def _metadata(tensors: Sequence[Tensor], max_batch: int) -> list[dict[str, Any]]:
    lead = [-1] if max_batch else []
    return [{"name": each.name, "datatype": each.datatype, "shape": [*lead, *each.shape]} for each in tensors]


def _mosec(deployment: Deployment, place: Place) -> list[str]:
    where = ["--address", "127.0.0.1", "--port", str(place.http_port), "--path", str(place.folder / "sockets")]
    return [*_app(deployment, place), *where]


PRODUCTS = {
    # NVIDIA Triton, with servemark's backend for ONNX Runtime.
    TRITON: Product(
        package="nvidia-pytriton",
        guide="https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/batcher.html",
        batching="dynamic_batching: takes what waits when an instance falls idle",
        instances="instance_group",
        ready="/v2/models/{model}/ready",
        tried="the tests of each commit",
        grpc=True,
        binary_tensors=True,
    ),
    # BentoML: a service with one batchable API.
    "bentoml": Product(
        package="bentoml",
        guide="https://docs.bentoml.com/en/latest/get-started/adaptive-batching.html",
        batching="adaptive batching: waits as long as its own estimate of the next batch says",
        instances="workers",
        ready="/readyz",
        tried="right answers by `validation_data`",
        endpoint_type="bentoml",
        environment={"BENTOML_DO_NOT_TRACK": "True", "BENTOML_HOME": "{folder}"},
        command=_bentoml,
    ),
    # KServe's Python server: a custom model.
    "kserve": Product(
        package="kserve",
        guide="https://kserve.github.io/website/docs/model-serving/predictive-inference/frameworks/custom-predictor",
        batching="",  # its batcher is a program of its own, which Kubernetes runs beside the server
        instances="workers",
        ready="/v2/models/{model}/ready",
        tried="right answers by `validation_data`, batches of 1 and 4, over HTTP and gRPC; `kserve-v1` too",
        grpc=True,
    ),
    # LitServe: an API whose worker is a process of its own.
    "litserve": Product(
        package="litserve",
        guide="https://lightning.ai/docs/litserve/features/batching",
        batching="max_batch_size: each batch waits batch_timeout, unless it is full",
        instances="workers_per_device",
        ready="/health",
        tried="right answers by `validation_data`",
        endpoint_type="predict",
        single_samples=True,
    ),
    # MLServer: a custom runtime, whose settings are files. Its workers do not start with uvloop after 0.21.
    "mlserver": Product(
        package="mlserver",
        guide="https://docs.seldon.ai/mlserver/user-guide/adaptive-batching",
        batching="adaptive batching: each batch waits max_batch_time, unless it is full",
        instances="parallel_workers",
        ready="/v2/models/{model}/ready",
        tried="right answers by `validation_data`, batches of 1 and 4, over HTTP and gRPC",
        grpc=True,
        command=_mlserver,
    ),
    # Mosec: a Rust server in front of Python workers.
    "mosec": Product(
        package="mosec",
        guide="https://mosecorg.github.io/mosec/reference/interface.html",
        batching="max_batch_size: each batch waits max_wait_time, unless it is full",
        instances="num",
        ready="/",
        tried="right answers by `validation_data`",
        endpoint_type="predict",
        single_samples=True,
        command=_mosec,
    ),
    # Ray Serve: a deployment behind its HTTP proxy, on a cluster of one node that ends with it.
    "ray": Product(
        package="ray",
        guide="https://docs.ray.io/en/latest/serve/advanced-guides/dyn-req-batch.html",
        batching="serve.batch: each batch waits batch_wait_timeout_s, unless it is full",
        instances="num_replicas",
        ready="/predict",
        tried="right answers by `validation_data`",
        endpoint_type="predict",
        single_samples=True,
        environment={
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DEDUP_LOGS": "0",
            # Without a cluster its processes listen on loopback, not everywhere.
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        },
    ),
}
"""By name, installed or not, Triton first."""


def product(name: str) -> Product:
    """Look up a product. Raises OptionError on an unknown name."""
    return PRODUCTS[one_of("server", name, PRODUCTS)]


def pins(name: str) -> Path:
    """The file that pins the packages of a product's environment, with their hashes."""
    return FOLDER / f"{name}.txt"


@functools.cache
def version(name: str) -> str | None:
    """Return the version of a product: the pinned one, of Triton that of its wheel. None: Triton is not installed."""
    package = product(name).package
    if name == TRITON:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None
    found = re.search(rf"^{re.escape(package)}==(\S+)", pins(name).read_text(), re.MULTILINE)
    assert found, f"{pins(name)} does not pin {package}"
    return found[1]
