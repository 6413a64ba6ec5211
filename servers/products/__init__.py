"""Server products: software that serves an exported ONNX model, so that servers can be compared over the same artifact.

A module of this package is a product. It says what the product can do, and how it is started; `NAME.txt` pins what its
environment holds, and `apps/NAME.py` is what runs there. Triton is started by `servers.open_server` instead, so its
module has nothing but its description. Nothing in here starts a process: `servers.launch.product_server` does.
"""

import functools
import importlib.metadata
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from servemark.plugins import module_of, names_in
from servemark.quantities import one_of
from servemark.workload import Tensor

TRITON = "triton"
"""The product that servemark starts without an environment of its own."""
FOLDER = Path(__file__).parent
APPS = FOLDER / "apps"


@dataclass(frozen=True)
class About:
    """Description of a product."""

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


class ProductModule(Protocol):
    """Interface of a product's module."""

    ABOUT: About

    def command(self, deployment: Deployment, place: Place) -> list[str]:
        """Write what the product reads into the folder; return the command that serves the model on loopback."""


def product_names() -> list[str]:
    """List the products, Triton first, whether or not they are installed."""
    return sorted(names_in(__name__), key=lambda name: (name != TRITON, name))


def product(name: str) -> ProductModule:
    """Import the module of a product. Raises OptionError on an unknown name."""
    one_of("server", name, product_names())
    found: ProductModule = module_of(__name__, name)
    return found


def pins(name: str) -> Path:
    """The file that pins the packages of a product's environment, with their hashes."""
    return FOLDER / f"{name}.txt"


@functools.cache
def version(name: str) -> str | None:
    """Return the version of a product: the pinned one, of Triton that of its wheel. None: Triton is not installed."""
    package = product(name).ABOUT.package
    if name == TRITON:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None
    found = re.search(rf"^{re.escape(package)}==(\S+)", pins(name).read_text(), re.MULTILINE)
    assert found, f"{pins(name)} does not pin {package}"
    return found[1]
