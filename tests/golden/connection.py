"""The golden server's protocol: HTTP/1.1 as KServe v2 has it, each answer when it is due and broken as planned."""

import asyncio
import json
import socket
import struct
import time
from typing import cast
from urllib.parse import quote

from tests.golden.memory import ROUTE, over_http
from tests.golden.model import compute, spoil
from tests.golden.record import Entry, Record
from tests.golden.service import Service
from tests.golden.tensors import BadRequestError, Request, decode, encode

REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def _response(status: int, body: bytes, header_length: int | None = None) -> bytes:
    binary = "" if header_length is None else f"Inference-Header-Content-Length: {header_length}\r\n"
    kind = "application/json" if header_length is None else "application/octet-stream"
    reason = REASONS.get(status, "Status")
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\n{binary}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _error(status: int, message: str) -> bytes:
    return _response(status, json.dumps({"error": message}).encode())


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection with keep-alive; a pipelined request waits for the response before it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.buffer = bytearray()
        self.head: tuple[str, str, dict[str, str], int] | None = None  # method, path, headers, body's offset
        self.arrival_ns = 0
        self.busy = False
        self.asked = service.behaviour.model  # the name in the last request, which may be an alias

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Number the connection; asyncio itself sets TCP_NODELAY."""
        self.transport = cast("asyncio.Transport", transport)
        self.loop = asyncio.get_running_loop()
        self.service.connections += 1
        self.service.record.connections += 1
        self.number = self.service.connections

    def data_received(self, data: bytes) -> None:
        """Note the arrival of a head's first byte, then handle what is complete."""
        if not self.buffer:
            self.arrival_ns = time.monotonic_ns()
        self.buffer += data
        self._advance()

    def _advance(self) -> None:
        while not self.busy and not self.transport.is_closing():
            if self.head is None:
                if self.buffer and not self.buffer[:1].isalpha():
                    self.transport.write(_error(400, "this is no HTTP"))
                    self.transport.close()
                    return
                end = self.buffer.find(b"\r\n\r\n")
                if end < 0:
                    return
                first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
                method, path, _ = first.split(" ", 2)
                headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
                self.head = (method, path, headers, end + 4)
            method, path, headers, offset = self.head
            length = offset + int(headers.get("content-length", "0"))
            if len(self.buffer) < length:
                return
            body = bytes(memoryview(self.buffer)[offset:length])
            arrival_ns, self.arrival_ns = self.arrival_ns, time.monotonic_ns()
            del self.buffer[:length]
            self.head = None
            self._handle(method, path.partition("?")[0], headers, body, arrival_ns)

    def _handle(self, method: str, path: str, headers: dict[str, str], body: bytes, arrival_ns: int) -> None:
        service = self.service
        service.record.paths[f"{method} {path}"] += 1
        wanted, given = service.behaviour.authorization, headers.get("authorization", "")
        if wanted and given != wanted and not path.startswith("/golden/"):
            # It repeats a secret, as a careless server may.
            self.transport.write(_error(401, f"golden refusal of {given!r}"))
            return
        name = path.removeprefix("/v2/models/").partition("/")[0]
        self.asked = name if name in service.behaviour.aliases else service.behaviour.model
        if name in service.behaviour.aliases:
            path = path.replace(name, service.behaviour.model, 1)
        model = f"/v2/models/{quote(service.behaviour.model, safe='')}"
        if method == "POST" and path in {f"{model}/infer", f"{model}/versions/1/infer"}:
            self._infer(headers, body, arrival_ns)
        elif method == "POST" and (route := ROUTE.fullmatch(path)):
            kind, name, action = route.groups()
            self._share(kind, name, action, body)
        elif method == "POST" and path == "/golden/reset":
            service.reset()
            self.transport.write(_response(200, b"{}"))
        elif (answer := service.answer(path)) is not None:
            # Triton's health and readiness endpoints answer with an empty body.
            self.transport.write(_response(200, json.dumps(answer).encode() if answer else b""))
        else:
            self.transport.write(_error(404, f"{method} {path}: the golden server serves only {model}"))

    def _share(self, kind: str, name: str, action: str, body: bytes) -> None:
        try:
            self.service.memory.change(kind, name, action, over_http(json.loads(body)))
        except BadRequestError as error:
            self.transport.write(_error(400, str(error)))
        else:
            self.transport.write(_response(200, b""))

    def _infer(self, headers: dict[str, str], body: bytes, arrival_ns: int) -> None:
        service = self.service
        try:
            if "content-encoding" in headers or "transfer-encoding" in headers:
                raise BadRequestError("compressed and chunked bodies are not supported")
            length = headers.get("inference-header-content-length")
            if service.behaviour.json_only and (length is not None or b"binary_data" in body):
                self.transport.write(_error(500, "golden: this server knows no binary tensors"))
                service.record.rejected += 1
                return
            request = decode(
                body,
                None if length is None else int(length),
                service.inputs,
                service.behaviour.max_batch_size,
                service.memory.read,
                service.behaviour.optional,
            )
            unknown = request.outputs.keys() - {"", *(tensor.name for tensor in service.outputs)}
            if unknown:
                raise BadRequestError(f"unknown outputs {sorted(unknown)}")
        except BadRequestError as error:
            service.record.rejected += 1
            self.transport.write(_error(400, str(error)))
            return
        entry = service.record.admit(arrival_ns, self.number, request, body)
        self.busy = True
        if entry.kind == "never":
            return
        response = self._render(entry, request)
        record = service.record  # a reset in between must not count this response in the new record
        delay_ns = entry.due_ns - time.monotonic_ns()
        if entry.kind == "slow":
            self._dribble(record, entry, response, 0)
        elif delay_ns > 0:
            self.loop.call_at(entry.due_ns / 1e9, self._finish, record, entry, response)
        else:
            self._finish(record, entry, response)

    def _render(self, entry: Entry, request: Request) -> bytes:
        service = self.service
        if entry.kind == "error":
            return _error(service.behaviour.error_status, f"golden error on request {entry.number}")
        known = service.answers
        values = known.compute(request, service.outputs) if known else compute(request, service.outputs)
        if entry.kind in {"wrong_shape", "wrong_datatype", "wrong_value"}:
            values = [spoil(value, entry.kind) for value in values]
        for value in values:
            if value.name in request.places:
                service.memory.write(request.places[value.name], value.raw)
        model, version = self.asked, "1"
        if entry.kind == "other_model":
            model += "_other"
        elif entry.kind == "other_version":
            version = "2"
        body, header_length = encode(model, request, values, version)
        return _response(200, body, header_length)

    def _finish(self, record: Record, entry: Entry, response: bytes) -> None:
        if self.transport.is_closing():
            return
        if entry.kind == "reset":
            linger = struct.pack("ii", 1, 0)  # closing now sends RST instead of FIN
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.transport.abort()
            return
        if entry.kind == "truncate":
            body = response.index(b"\r\n\r\n") + 4
            self.transport.write(response[: (body + len(response)) // 2])
            self.transport.close()
            return
        self.transport.write(response)
        self._done(record, entry)

    def _dribble(self, record: Record, entry: Entry, response: bytes, piece: int) -> None:
        """Write piece after piece, the last one when the entry is due."""
        if self.transport.is_closing():
            return
        behaviour = self.service.behaviour
        pieces, now_ns = behaviour.slow_pieces, time.monotonic_ns()
        at_ns = entry.due_ns - round(behaviour.slow_s * 1e9 * (pieces - 1 - piece) / (pieces - 1))
        if now_ns < at_ns:
            self.loop.call_at(at_ns / 1e9, self._dribble, record, entry, response, piece)
            return
        self.transport.write(response[len(response) * piece // pieces : len(response) * (piece + 1) // pieces])
        if piece + 1 < pieces:
            self._dribble(record, entry, response, piece + 1)
        else:
            self._done(record, entry)

    def _done(self, record: Record, entry: Entry) -> None:
        record.written(entry, time.monotonic_ns())
        self.busy = False
        if self.buffer:
            self.loop.call_soon(self._advance)
