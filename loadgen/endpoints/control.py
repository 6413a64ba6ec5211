"""Control plane of a server that tells only if it is ready."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from loadgen.endpoints.endpoint import Endpoint, filled
from loadgen.kserve.control import Control
from loadgen.kserve.served_model import ServedModel, declared_model
from loadgen.sut.target import Placement
from loadgen.transport.access import CONTENT_TYPE
from servemark.documents.server import Tensors
from servemark.errors import OptionError
from servemark.repository.names import in_path
from servemark.workload import Workload


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
        self.require_ready(model, "name a model that is served there", start="start the server, or correct --url")
        return declared_model(f"{model!r} as declared", declared)

    def require_model(self, model: str, _workload: Workload, _serve_command: str) -> Collection[str]:
        """Check that the server is ready; the first request tells more. Raises ServerError."""
        self.require_ready(model, "name a model that is served there", start="start the server, or correct --url")
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
