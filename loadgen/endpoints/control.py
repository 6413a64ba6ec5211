"""Control planes of servers that tell only if they are ready, and what each of their protocols over gRPC tells."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from loadgen.endpoints.endpoint import Endpoint, endpoint_of, filled
from loadgen.kserve.control import START, Control
from loadgen.kserve.grpc_call import MessageReader
from loadgen.kserve.grpc_control import OverGrpc
from loadgen.kserve.model_documents import ServedModel, declared_model
from loadgen.load.load_config import LoadConfig
from loadgen.sut.target import Placement
from loadgen.transport.access import CONTENT_TYPE
from servemark.documents.server import Tensors
from servemark.errors import OptionError, ServerError
from servemark.repository.names import in_path
from servemark.workload import Arrays, Workload

TENSORFLOW_SERVING = "tensorflow-serving"


@dataclass(frozen=True)
class EndpointControl(Control):
    """Control plane of a server of which only readiness may be asked."""

    def served_model(self, model: str, declared: Mapping[str, Tensors] | None = None) -> ServedModel:
        """Return a model's tensors as they are declared: no server of this kind tells them. Raises as Control's."""
        if not declared:
            raise OptionError(
                f"a server of this endpoint type does not tell the tensors of {model!r}",
                fix="--input NAME:FP32:-1,4 --output NAME:FP32:-1,3; or a workload of `servemark list`",
            )
        self.require_ready(model, "name a model that is served there", start=START)
        return declared_model(f"{model!r} as declared", declared)

    def require_model(self, model: str, _workload: Workload, _serve_command: str) -> Collection[str]:
        """Check that the server is ready; the first request tells more. Raises ServerError."""
        self.require_ready(model, "name a model that is served there", start=START)
        return ()

    def versions(self, _model: str) -> list[str]:
        return []

    def placement(self, _model: str) -> Placement:
        return Placement(None, None, None)

    def statistics(self, _model: str) -> dict[str, Any] | None:
        return None


@dataclass(frozen=True)
class HttpEndpointControl(EndpointControl):
    """Control plane over HTTP."""

    endpoint: Endpoint = field(kw_only=True)

    @property
    def fields(self) -> dict[str, str]:
        given = {name.lower(): value for name, value in self.endpoint.request.headers.items()}
        given.pop(CONTENT_TYPE, None)  # of a body, which a GET has not
        return given | super().fields

    def _ready(self, model: str, fix: str) -> bool:
        values = {"model": in_path(model), "version": self.version and in_path(self.version)}
        path = str(filled(self.endpoint.ready or "/", values))
        reply = self.ask(path, fix=fix)
        if self.endpoint.ready:
            self._refuse_redirect(path, reply)
        if reply.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise self._refused(f"HTTP {reply.status}", reply.body.decode(errors="replace"))
        return not self.endpoint.ready or reply.status == HTTPStatus.OK


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
