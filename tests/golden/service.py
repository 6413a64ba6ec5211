"""The tests' golden service: any tensors, shared memory, and answers broken as planned."""

import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from servemark.calibration.golden import behaviour, connection
from servemark.calibration.golden.connection import Request, error, response
from tests.golden import json_apis
from tests.golden.behaviour import Behaviour
from tests.golden.memory import ROUTE, Memory, over_http
from tests.golden.model import Answers, compute, spoil
from tests.golden.tensors import BadRequestError, Value, decode, encode
from tests.golden.tensors import Request as Inference


@dataclass(slots=True)
class Entry(behaviour.Entry):
    """One inference request, and what came with it."""

    bytes: int = 0  # of the body
    crc32: int = 0  # of the body: tells distinct inputs from repeated ones
    request_id: str = ""


class Connection(connection.Connection[Entry]):
    """A connection that also breaks answers on their way."""

    service: "Service"

    def plan(self, entry: Entry, answer: bytes) -> None:
        self.busy |= entry.kind in {"never", "slow"}
        if entry.kind == "slow":
            self._dribble(self.service.record, entry, answer, -1)
        elif entry.kind != "never":
            super().plan(entry, answer)

    def finish(self, record: behaviour.Record[Any], entry: Entry, answer: bytes) -> None:
        if entry.kind == "truncate":
            body = answer.index(b"\r\n\r\n") + 4
            self.write(answer[: (body + len(answer)) // 2])
            self.close_when_sent()
        else:
            super().finish(record, entry, answer)

    def _dribble(self, record: behaviour.Record[Any], entry: Entry, answer: bytes, piece: int) -> None:
        """Write piece after piece, the last one when the entry is due."""
        if self.closed:
            return
        behaviour = self.service.behaviour
        pieces = behaviour.slow_pieces
        if piece >= 0:
            self.write(answer[len(answer) * piece // pieces : len(answer) * (piece + 1) // pieces])
        if piece + 1 == pieces:
            self.done(record, entry)
            return
        left_ns = round(behaviour.slow_s * 1e9 * (pieces - 2 - piece) / (pieces - 1))
        self.loop.call_at(entry.due_ns - left_ns, partial(self._dribble, record, entry, answer, piece + 1))


class Service(connection.Service[Entry]):
    """The one model and its record."""

    entry = Entry
    behaviour: Behaviour

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__(behaviour)
        self.inputs, self.outputs = behaviour.input_tensors, behaviour.output_tensors
        self.answers = Answers.read(behaviour.answers, self.inputs) if behaviour.answers else None
        self.memory = Memory()

    def route(self, connection: connection.Connection[Entry], request: Request) -> None:
        """Refuse strangers, know the model by its other names, and keep shared memory."""
        wanted, given = self.behaviour.authorization, request.headers.get("authorization", "")
        if wanted and given != wanted and not request.path.startswith("/golden/"):
            # It repeats a secret, as a careless server may.
            connection.write(error(401, f"golden refusal of {given!r}"))
            return
        if (api := self.behaviour.json_api) and not request.path.startswith("/golden/"):
            self._route_json(api, connection, request)
            return
        if self.behaviour.infer_only and request.method == "GET" and request.path.startswith("/v2"):
            connection.write(error(404, "golden: only inference is here"))
            return
        name = request.path.removeprefix("/v2/models/").partition("/")[0]
        self.asked = name if name in self.behaviour.aliases else self.behaviour.model
        if request.method == "POST" and (route := ROUTE.fullmatch(request.path)):
            kind, name, action = route.groups()
            try:
                self.memory.change(kind, name, action, over_http(json.loads(request.body)))
            except BadRequestError as refusal:
                connection.write(error(400, str(refusal)))
            else:
                connection.write(response(200, b""))
            return
        if self.asked in self.behaviour.aliases:
            request = request._replace(path=request.path.replace(name, self.behaviour.model, 1))
        super().route(connection, request)

    def _route_json(self, api: str, connection: connection.Connection[Entry], request: Request) -> None:
        """Answer as servers of another JSON API do."""
        at = json_apis.PATHS[api].format(model=self.behaviour.model)
        if request.method == "GET" and request.path == json_apis.READY.get(api, "").format(model=self.behaviour.model):
            connection.write(response(200, b'{"name": "golden", "ready": true}'))
            return
        if request.method != "POST" or request.path.replace("/versions/1:", ":") != at:
            connection.write(error(404, f"{request.method} {request.path} is not here"))
            return
        try:
            inference = json_apis.read(api, request.body, self.inputs)
        except BadRequestError as refusal:
            self.record.rejected += 1
            connection.write(error(400, str(refusal)))
            return
        came = {"batch": inference.batch, "bytes": len(request.body), "crc32": zlib.crc32(request.body)}
        entry = self.record.admit(request.arrival_ns, request.connection, **came)
        if entry.kind == "error":
            connection.plan(entry, error(self.behaviour.error_status, f"golden error on request {entry.number}"))
            return
        connection.plan(entry, response(200, json_apis.written(api, inference, self._values(entry, inference))))

    def infer(self, connection: connection.Connection[Entry], request: Request) -> None:
        try:
            inference = self._decoded(request)
        except BadRequestError as refusal:
            self.record.rejected += 1
            connection.write(error(400, str(refusal)))
            return
        if inference is None:
            self.record.rejected += 1
            connection.write(error(500, "golden: this server knows no binary tensors"))
            return
        body = request.body
        came = {"batch": inference.batch, "bytes": len(body), "crc32": zlib.crc32(body)}
        entry = self.record.admit(request.arrival_ns, request.connection, request_id=inference.request_id, **came)
        answer = b"" if entry.kind == "never" else self._render(entry, inference)
        if answer and self.behaviour.compresses and "gzip" in request.headers.get("accept-encoding", ""):
            answer = _packed(answer)
        connection.plan(entry, answer)

    def _decoded(self, request: Request) -> Inference | None:
        body, encoding = request.body, request.headers.get("content-encoding", "")
        if "transfer-encoding" in request.headers or (
            encoding and (encoding != "gzip" or not self.behaviour.compresses)
        ):
            raise BadRequestError("chunked and such compressed bodies are not supported")
        if encoding:
            body = gzip.decompress(body)
        length = request.headers.get("inference-header-content-length")
        if self.behaviour.json_only and (length is not None or b"binary_data" in body):
            return None
        inference = decode(
            body,
            None if length is None else int(length),
            self.inputs,
            self.behaviour.max_batch_size,
            self.memory.read,
            self.behaviour.optional,
        )
        unknown = inference.outputs.keys() - {"", *(tensor.name for tensor in self.outputs)}
        if unknown:
            raise BadRequestError(f"unknown outputs {sorted(unknown)}")
        return inference

    def _render(self, entry: Entry, request: Inference) -> bytes:
        if entry.kind == "error":
            return error(self.behaviour.error_status, f"golden error on request {entry.number}")
        values = self._values(entry, request)
        for value in values:
            if value.name in request.places:
                self.memory.write(request.places[value.name], value.raw)
        model, version = self.asked, "1"
        if entry.kind == "other_model":
            model += "_other"
        elif entry.kind == "other_version":
            version = "2"
        body, header_length = encode(model, request, values, version)
        return response(200, body, header_length)

    def _values(self, entry: Entry, request: Inference) -> list[Value]:
        """Run the model, and falsify what the behaviour says."""
        known = self.answers
        values = known.compute(request, self.outputs) if known else compute(request, self.outputs)
        wrong = entry.kind in {"wrong_shape", "wrong_datatype", "wrong_value"}
        return [spoil(value, entry.kind) for value in values] if wrong else values

    def metadata(self) -> dict[str, Any]:
        lead = [-1] if self.behaviour.max_batch_size else []
        inputs, outputs = (
            [{"name": t.name, "datatype": t.datatype, "shape": [*lead, *t.dims]} for t in tensors]
            for tensors in (self.inputs, self.outputs)
        )
        if not self.behaviour.metadata:
            inputs = outputs = []
        return {**super().metadata(), "inputs": inputs, "outputs": outputs}

    def config(self) -> dict[str, Any] | None:
        if not self.behaviour.configuration:
            return None
        inputs, outputs = (
            [
                dict[str, Any]({"name": t.name, "data_type": _config_type(t.datatype), "dims": list(t.dims)})
                for t in tensors
            ]
            for tensors in (self.inputs, self.outputs)
        )
        for each in inputs:
            each["optional"] = each["name"] in self.behaviour.optional
        name, batch = self.behaviour.model, self.behaviour.max_batch_size
        return {"name": name, "backend": "golden", "max_batch_size": batch, "input": inputs, "output": outputs}

    def extensions(self) -> list[str]:
        return super().extensions()[self.behaviour.json_only :]

    def more(self) -> dict[str, Callable[[], Any]]:
        return {
            "/v2/systemsharedmemory/status": lambda: list(self.memory.status["system"].values()),
            "/v2/cudasharedmemory/status": lambda: list(self.memory.status["cuda"].values()),
        }


def _packed(answer: bytes) -> bytes:
    """Compress the body of a response."""
    head, _, body = answer.partition(b"\r\n\r\n")
    packed = gzip.compress(body)
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length:")]
    lines += [b"Content-Encoding: gzip", b"Content-Length: %d" % len(packed)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + packed


def _config_type(datatype: str) -> str:
    return "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"
