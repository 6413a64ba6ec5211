"""The server's control plane over gRPC, where only that is reachable: the same questions as over HTTP."""

import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError, Message

from loadgen.kserve.control import NOT_SHARED, TIMEOUT_S, Control
from loadgen.kserve.grpc_call import PREFIX_BYTES, UNIMPLEMENTED, GrpcAnswer, Method, enclose
from loadgen.kserve.grpc_connection import GrpcConnection
from loadgen.kserve.grpc_messages import SERVICE, message, parse, to_dict
from loadgen.sut.channel import WRITE, ConnectionFailed, Payload, State
from loadgen.transport.server_url import authority, is_secure
from loadgen.transport.tls import TLS_ERROR
from servemark.errors import ServerError
from servemark.telemetry.http_request import MAX_BYTES

NOT_KSERVE = "--endpoint-type where the server does not speak KServe v2, or --url of one that does"
_METHODS = {"": "ModelMetadata", "config": "ModelConfig", "stats": "ModelStatistics"}


@dataclass(frozen=True)
class OverGrpc(Control):
    """Control plane whose questions are unary calls. `url` is like grpc://127.0.0.1:8001."""

    def first_call(self, path: str, request: Message, fix: str) -> GrpcAnswer:
        """Ask, and wait for the answer. Raises ServerError if no server answers, with this fix, or if it refuses us."""
        try:
            answer = self.call(path, request)
        except ConnectionFailed as error:
            if error.kind == TLS_ERROR:
                raise self._not_secure(str(error)) from error
            raise ServerError(
                f"no server answers at {self.url} ({error})",
                fix=f"{fix}; http:// where that is a server's HTTP port",
            ) from error
        if answer.error in {"grpc_unauthenticated", "grpc_permission_denied", "http_401", "http_403"}:
            raise self._refused(answer.error, answer.message())
        return answer

    @property
    def metadata(self) -> Sequence[tuple[str, str]]:
        """Metadata of each call beside that of --headers, which may replace it."""
        return ()

    def call(self, path: str, request: Message) -> GrpcAnswer:
        """Ask, and wait for the answer. Raises ConnectionFailed."""
        method = Method(
            path=path,
            authority=authority(self.url),
            max_bytes=MAX_BYTES,
            scheme="https" if is_secure(self.url) else "http",
            metadata=(*self.metadata, *self.access.headers),
        )
        connection = GrpcConnection(self.access.address(self.url), method)
        connection.payload = Payload(enclose(request.SerializeToString()))
        try:
            return _exchange(connection)
        finally:
            connection.close()


@dataclass(frozen=True)
class GrpcControl(OverGrpc):
    """Control plane of a KServe v2 server."""

    def require_ready(self, model: str, fix: str, *, start: str) -> None:
        unknown = self._ask_ready(model, start).error == UNIMPLEMENTED
        super().require_ready(model, NOT_KSERVE if unknown else fix, start=start)

    def _ask_ready(self, model: str, fix: str) -> GrpcAnswer:
        request = message("ModelReadyRequest", name=model, version=self.version)
        return self.first_call(f"/{SERVICE}/ModelReady", request, fix)

    def _ready(self, model: str, fix: str) -> bool:
        answer = self._ask_ready(model, fix)
        # Some servers answer with an error where there is no such model.
        return answer.error is None and bool(self._response("ModelReady", answer).ready)

    def _document(self, model: str, kind: str) -> dict[str, Any]:
        method = _METHODS[kind]
        answer = self._asked(method, name=model, version=self.version)
        document = to_dict(self._response(method, answer), absent=kind != "config")
        config: dict[str, Any] = document.get("config", {})
        return config if kind == "config" else document

    def trace_settings(self, model: str, changed: Mapping[str, object] | None = None) -> dict[str, Any]:
        given = [
            message("TraceSetting", key=key, value=message("TraceSettingValue", value=_texts(value)))
            for key, value in (changed or {}).items()
        ]
        answer = self._asked("TraceSetting", settings=given, model_name=model)
        listed = self._response("TraceSetting", answer).settings
        found = {each.key: [*each.value.value] for each in listed}
        return {key: value if key == "trace_level" else "".join(value) for key, value in found.items()}

    def register_memory(self, kind: str, name: str, place: Mapping[str, Any]) -> None:
        self._asked(f"{kind.capitalize()}SharedMemoryRegister", NOT_SHARED, name=name, **place)

    def unregister_memory(self, kind: str, name: str) -> None:
        self._asked(f"{kind.capitalize()}SharedMemoryUnregister", NOT_SHARED, name=name)

    def _asked(self, method: str, fix: str | None = None, /, **fields: Any) -> GrpcAnswer:
        """Ask, and return an answer without an error. Raises ServerError, with the fix where the server has one."""
        try:
            answer = self.call(f"/{SERVICE}/{method}", message(f"{method}Request", **fields))
        except ConnectionFailed as error:
            raise ServerError(f"{self.url} {method}: {error}") from error
        if answer.error is not None:
            words = self._words(answer.message())
            raise ServerError(f"{self.url} {method}: {answer.error} {words}".rstrip(), fix=fix)
        return answer

    def _response(self, method: str, answer: GrpcAnswer) -> Any:
        """Read an answer. Raises ServerError."""
        try:
            return parse(f"{method}Response", answer.body[PREFIX_BYTES:])
        except DecodeError as error:
            raise ServerError(f"{self.url} {method}: {error}") from error


def _exchange(connection: GrpcConnection) -> GrpcAnswer:
    """Drive one connection through one call. Raises ConnectionFailed."""
    connection.open()
    # Under Locust, which has replaced it, this lets the driver's greenlet go on.
    poller = select.poll()
    poller.register(connection.fd, connection.wants)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        events = poller.poll(max(deadline - time.monotonic(), 0) * 1000)
        if not events or time.monotonic() > deadline:
            raise ConnectionFailed("timeout", "timed out")
        if (answer := _step(connection, events[0][1])) is not None:
            return answer
        poller.modify(connection.fd, connection.wants)


def _step(connection: GrpcConnection, event: int) -> GrpcAnswer | None:
    """Handle an event as the driver does."""
    if connection.state is State.BUSY:
        if event & WRITE:
            connection.writable()
        return connection.readable() if event & ~WRITE else None
    connection.connected()
    if connection.state is State.IDLE:
        connection.start()
    return None


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]
