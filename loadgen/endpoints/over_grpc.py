"""Servers that speak something else than KServe v2 over gRPC: what each of their protocols tells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from google.protobuf.message import DecodeError

from loadgen.endpoints.control import EndpointControl
from loadgen.endpoints.endpoint import endpoint_of
from loadgen.kserve.grpc_call import MessageReader
from loadgen.kserve.grpc_control import OverGrpc
from loadgen.load.load_config import LoadConfig
from servemark.errors import OptionError, ServerError
from servemark.workload import Arrays

TENSORFLOW_SERVING = "tensorflow-serving"


class Spoken(Protocol):
    """A protocol of unary calls. Each method may ask the server, and raises ServerError and OptionError."""

    path: str
    """The method that answers requests, as it travels."""
    metadata: Sequence[tuple[str, str]]
    """Metadata of each call."""

    def is_ready(self, control: OverGrpc, model: str, fix: str) -> bool:
        """Return True if the model can be asked; `fix` is that of a server that does not answer."""

    def reader(self, control: OverGrpc, config: LoadConfig) -> MessageReader:
        """Make what judges and decodes the answers."""

    def encoder(self, control: OverGrpc, config: LoadConfig) -> Callable[[Arrays], bytes]:
        """Make what serialises a batch as an enclosed message."""


def spoken_over_grpc(named: str) -> Spoken:
    """Return the protocol that --endpoint-type names. Raises OptionError, InputDataError."""
    if named == TENSORFLOW_SERVING:
        from loadgen.endpoints.tensorflow_serving import TensorFlowServing

        return TensorFlowServing()
    endpoint = endpoint_of(named)
    if not endpoint.request.method:
        raise OptionError(
            f"--endpoint-type {named} is spoken over HTTP, and --url is gRPC",
            fix=f"--url http://HOST:PORT; over gRPC: {TENSORFLOW_SERVING}, or a file with request.method",
        )
    from loadgen.endpoints.method import UnaryMethod

    return UnaryMethod(endpoint, named)


@dataclass(frozen=True)
class GrpcEndpointControl(OverGrpc, EndpointControl):
    """Control plane of a server over gRPC of which only readiness may be asked."""

    spoken: Spoken = field(kw_only=True)

    @property
    def metadata(self) -> Sequence[tuple[str, str]]:
        return self.spoken.metadata

    def _ready(self, model: str, fix: str) -> bool:
        try:
            return self.spoken.is_ready(self, model, fix)
        except DecodeError as error:
            raise ServerError(f"{self.url}: what it answers of {model!r} cannot be read: {error}") from error
