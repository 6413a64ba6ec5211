"""The server's control plane over HTTP: readiness, what a model takes and gives, and Triton's statistics."""

import base64
import json
import math
import socket
import ssl
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.parse import urljoin, urlsplit

from loadgen.kserve.http_messages import model_path
from loadgen.kserve.model_documents import ServedModel, declared_model, is_whole, read_served_model
from loadgen.sut.target import Placement
from loadgen.transport.access import NO_ACCESS, Access
from loadgen.transport.server_url import authority, is_secure, path_of, port_flag, socket_path
from loadgen.transport.tcp import CORRECT_HOST, cause
from loadgen.transport.tls import reason
from servemark.documents.server import Tensors
from servemark.errors import MAX_QUOTED, OptionError, ServerError
from servemark.frameworks import serves_here
from servemark.repository.names import in_path, spellings
from servemark.telemetry.http_request import Reply, ask
from servemark.workload import Tensor, Workload

TIMEOUT_S = 5.0
NOT_SHARED = (
    "--shared-memory none, unless the server is Triton and sees this machine's memory: a container does with --ipc=host"
)
_DATATYPE_PREFIX = "TYPE_"
START = "start the server, or correct --url"
MAX_COMPOSING = 32
"""Models of one pipeline whose statistics are read."""
_OTHER_SHAPE = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""Exceptions that reading a document raises if its layout is not Triton's."""


def start_one(command: str = "servemark serve WORKLOAD") -> str:
    """Advise how a server is started: by this command, unless nothing here can serve."""
    if serves_here():
        return f"start one with `{command}`"
    return "start your server, or correct --url: this install only sends load (`make setup` installs what serves)"


@dataclass(frozen=True)
class Control:
    """One server's control plane. `url` is like http://127.0.0.1:8000; without a `version` the server chooses one."""

    url: str
    access: Access = NO_ACCESS
    version: str = ""
    _spelled: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Names of models as the server reads them in a path."""

    @property
    def fields(self) -> dict[str, str]:
        """Header fields of each question."""
        return dict(self.access.headers)

    def ask(self, path: str, body: bytes | None = None, *, fix: str = "") -> Reply:
        """GET, or POST where there is a body. Raises ServerError, with this fix where no server answers."""
        endpoint, path = socket_path(self.url) or authority(self.url), path_of(self.url) + path
        tls = self.access.context(self.url) if is_secure(self.url) else None
        try:
            return ask(endpoint, path, timeout_s=TIMEOUT_S, body=body, headers=self.fields, tls=tls)
        except ssl.SSLError as error:
            raise self._not_secure(reason(error)) from error
        except OSError as error:
            fix = fix or start_one()
            if isinstance(error, socket.gaierror):
                fix = CORRECT_HOST
            elif not socket_path(self.url) and urlsplit(self.url).port is None:
                fix = f"--url with the server's port, Triton's is 8000; or {fix}"
            raise ServerError(f"no server answers at {self.url} ({cause(error)})", fix=fix) from error
        except HTTPException as error:
            raise ServerError(
                f"what answers at {self.url} does not speak HTTP ({type(error).__name__})",
                fix=f"--url grpc://{endpoint} where that is the server's gRPC port",
            ) from error

    def _json(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        reply = self.ask(path, body)
        self._refuse_redirect(path, reply)
        try:
            document = json.loads(reply.body, parse_float=_finite, parse_constant=_finite)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise ServerError(
                f"{self.url}{path} answered {reply.status} and no JSON object",
                fix="--url with the HTTP port of a KServe v2 server; Triton's is 8000",
            )
        if reply.status != HTTPStatus.OK:
            words = document.get("error")
            words = f": {self._words(words)}" if isinstance(words, str) else ""
            raise ServerError(f"{self.url}{path} answered {reply.status}{words}")
        return document

    def _words(self, words: str) -> str:
        """Shorten a server's message for an error."""
        return self.access.redact(words.strip())[:MAX_QUOTED]

    def _ready(self, model: str, fix: str) -> bool:
        """Return True if the model can be asked. Raises ServerError if no server answers, or if it refuses us."""
        for spelling in spellings(model):
            path = f"{model_path(spelling, self.version)}/ready"
            reply = self.ask(path, fix=fix)
            if reply.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
                raise self._refused(f"HTTP {reply.status}", reply.body.decode(errors="replace"))
            self._refuse_redirect(path, reply)
            if reply.status == HTTPStatus.OK:
                self._spelled[model] = spelling
                return True
        return False

    def path(self, model: str) -> str:
        """Return the path of a model, or of the version that is asked for, below the server's own path."""
        return model_path(self._spelled.get(model) or in_path(model), self.version)

    def _refuse_redirect(self, path: str, reply: Reply) -> None:
        """Raise ServerError for a redirect, which requests under load would not follow."""
        if not 300 <= reply.status < 400 or not reply.location:
            return
        goal = urljoin(f"{self.url}{path}", reply.location)
        server = goal.removesuffix(path)
        raise ServerError(
            f"{self.url}{path} answered {reply.status}, a redirect to {self._words(goal)}, which no request follows",
            fix=f"--url {self._words(server)}" if server != goal else "--url of the server that answers itself",
        )

    def _refused(self, status: str, words: str) -> ServerError:
        """The server is there and wants to know who asks."""
        return ServerError(
            f"{self.url} does not let us in: {status} {self._words(words)}".rstrip(),
            fix="--headers FILE, with a line like Authorization: Bearer ...",
        )

    def _not_secure(self, words: str) -> ServerError:
        """The server is there, and is not whom its URL names, or does not speak TLS."""
        return ServerError(
            f"no TLS with {self.url}: {words}",
            fix="--tls-ca FILE for a CA that the system does not trust; http:// or grpc:// for a server without TLS",
        )

    def _document(self, model: str, kind: str) -> dict[str, Any]:
        """Ask the server for a model's metadata (""), "config" or "stats". Raises ServerError."""
        return self._json(f"{self.path(model)}/{kind}".rstrip("/"))

    def versions(self, model: str) -> list[str]:
        """Return the versions of a model that the server lists; empty if it lists none, or has no metadata."""
        try:
            listed = self._document(model, "").get("versions")
        except ServerError:
            return []  # the model's tensors were declared
        return [str(each) for each in listed] if isinstance(listed, list) else []

    def lists_binary_tensors(self) -> bool:
        """Return True if the server lists the extension for binary tensors."""
        try:
            extensions = self._json("/v2").get("extensions", [])
        except ServerError:
            return False
        return isinstance(extensions, list) and "binary_tensor_data" in extensions

    def require_ready(self, model: str, fix: str, *, start: str) -> None:
        """Check that the server is ready to serve the model; `start` is the fix without one. Raises ServerError."""
        if not self._ready(model, start):
            what = f"the server at {self.url} does not serve {model!r}"
            if self.version:
                what += f" in version {self.version}"
                fix = "name a version that is served with --model-version, or leave it out"
            raise ServerError(what, fix=fix)

    def served_model(self, model: str, declared: Mapping[str, Tensors] | None = None) -> ServedModel:
        """Return a model's `inputs` and `outputs`, declared or as the server describes them. Raises ServerError."""
        other = (
            "name a model that is served there: MODEL, --model-version, --url; "
            "or, if the server describes no models, give --input and --output"
        )
        if declared:
            self._ready(model, START)  # raises where nobody answers; a first request shows whether the model is there
            return declared_model(f"{model!r} as declared", declared)
        self.require_ready(model, other, start=START)
        metadata = self._document(model, "")
        try:
            config = self._document(model, "config")
        except ServerError:
            config = {}  # only Triton has one
        return read_served_model(f"{model!r} at {self.url}", metadata, config)

    def require_model(self, model: str, workload: Workload, serve_command: str) -> Collection[str]:
        """Check that the server is ready and that its model has the workload's tensors. Raises ServerError.

        Return the inputs of one value per sample that the server gives a dimension of 1, as Triton does.
        """
        start = start_one(serve_command)
        here = START if socket_path(self.url) else start_one(serve_command + port_flag(self.url))
        if workload.served:
            self._ready(model, here)  # raises where nobody answers
            return ()  # its tensors are the server's own words, or declared
        other = start if serves_here() else "name a model that is served there with --model-name"
        self.require_ready(model, other, start=here)
        metadata = self._document(model, "")
        try:
            widened = [
                _compare(self.url, model, kind, metadata.get(kind, []), expected, batched=workload.batched)
                for kind, expected in (("inputs", workload.inputs), ("outputs", workload.outputs))
            ]
        except _OTHER_SHAPE as error:
            raise ServerError(
                f"{self.url}: the metadata of {model!r} cannot be read: {repr(error)[:MAX_QUOTED]}"
            ) from error
        return widened[0]

    def placement(self, model: str) -> Placement:
        """Triton's model configuration with its engine and device, but no provider; all None without one."""
        try:
            config = self._document(model, "config")
            engine = str(config.get("backend") or "") or None
            group = (config.get("instance_group") or [{}])[0]
            device = {"KIND_CPU": "cpu", "KIND_GPU": "cuda"}.get(group.get("kind", ""))
            if device == "cuda":
                device = ",".join(f"cuda:{int(index)}" for index in group.get("gpus", [0]))
        except (ServerError, *_OTHER_SHAPE):
            return Placement(None, None, None)
        unnamed = {key: value for key, value in config.items() if key != "name"}
        return Placement(engine, device, None, unnamed or None)

    def decoupled(self, model: str) -> bool:
        """Return True if the model may answer a request more or less than once; False if its server does not say."""
        try:
            return bool((self._document(model, "config").get("model_transaction_policy") or {}).get("decoupled"))
        except (ServerError, *_OTHER_SHAPE):
            return False

    def statistics(self, model: str) -> dict[str, Any] | None:
        """Triton's counters of a model since it was loaded; None where the server has none or does not answer."""
        try:
            listed: list[dict[str, Any]] = self._document(model, "stats")["model_stats"]
            stats = max(listed, key=_version)  # the one that Triton chooses
        except (ServerError, *_OTHER_SHAPE):
            return None
        return stats if is_whole(stats) else None

    def composing_models(self, model: str) -> dict[str, str]:
        """The models that an ensemble is made of, also by way of other ensembles, with their versions; "": any."""
        found: dict[str, str] = {}
        waiting = [model]
        while waiting and len(found) < MAX_COMPOSING:
            try:
                config = replace(self, version=found.get(waiting[0], self.version))._document(waiting.pop(0), "config")
                for step in config["ensemble_scheduling"]["step"]:
                    name, version = str(step["model_name"]), int(step.get("model_version", -1))
                    if name not in found and len(found) < MAX_COMPOSING:
                        found[name] = str(version) if version > 0 else ""
                        waiting.append(name)
            except (ServerError, OptionError, *_OTHER_SHAPE):  # an option's where a step names what cannot be asked for
                continue  # no ensemble
        return found

    def trace_settings(self, model: str, changed: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Return Triton's settings of a model's trace, `changed` first where that is given. Raises ServerError."""
        path = f"{model_path(self._spelled.get(model) or in_path(model), '')}/trace/setting"
        return self._json(path) if changed is None else self._json(path, json.dumps(changed).encode())

    def register_memory(self, kind: str, name: str, place: Mapping[str, Any]) -> None:
        """Register a region of shared memory (`kind`: system, cuda). Raises ServerError with the server's message."""
        self._memory(f"/v2/{kind}sharedmemory/region/{name}/register", place)

    def unregister_memory(self, kind: str, name: str) -> None:
        """Let the server forget a region; one that it does not know is forgotten already. Raises ServerError."""
        self._memory(f"/v2/{kind}sharedmemory/region/{name}/unregister", {})

    def _memory(self, path: str, place: Mapping[str, Any]) -> None:
        encoded = {
            key: {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
            for key, value in place.items()
        }
        reply = self.ask(path, json.dumps(encoded).encode())
        if reply.status != HTTPStatus.OK:
            words = self._words(reply.body.decode(errors="replace"))
            raise ServerError(f"{self.url}{path} answered {reply.status}: {words}", fix=NOT_SHARED)


def _version(statistics: Mapping[str, Any]) -> int:
    """Of a model's version, 0 where it has no number."""
    version = str(statistics.get("version", ""))
    return int(version) if version.isdecimal() and len(version) < 20 else 0


def _finite(number: str) -> float:
    """Raises ValueError for NaN and infinity, which no result may hold."""
    if not math.isfinite(value := float(number)):
        raise ValueError(number[:MAX_QUOTED])
    return value


def _compare(
    url: str, model: str, kind: str, served: Sequence[Mapping[str, Any]], expected: Sequence[Tensor], *, batched: bool
) -> list[str]:
    """Check a model's tensors against the workload's. Raises ServerError showing both sides.

    Return those that have a dimension of 1 where the workload's have none.
    """
    want = {tensor.name: (tensor.datatype, list(tensor.shape)) for tensor in expected}
    lead = 1 if batched else 0
    have = {
        tensor["name"]: (tensor["datatype"].removeprefix(_DATATYPE_PREFIX), [int(d) for d in tensor["shape"]][lead:])
        for tensor in served
    }
    widened = [name for name, (kept, shape) in want.items() if not shape and have.get(name) == (kept, [1])]
    # A server may give more outputs than the workload reads, but it must take exactly its inputs.
    wrong = {name: have.get(name) for name in want if have.get(name) != want[name] and name not in widened}
    extra = sorted(set(have) - set(want)) if kind == "inputs" else []
    if wrong or extra:
        raise ServerError(
            f"{model!r} at {url} is not this workload: {kind} are {_list(have)}, expected {_list(want)}",
            fix=f"name another model with --model-name, or {start_one()}",
        )
    return widened


def _list(tensors: Mapping[str, tuple[str, list[int]]]) -> str:
    text = ", ".join(f"{name} {datatype}{shape}" for name, (datatype, shape) in tensors.items()) or "none"
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."
