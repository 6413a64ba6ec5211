"""The golden server: a KServe v2 server with known delays by construction, which records what it really received.

It is the oracle of the load generator's meter: a process of its own with real sockets, so that neither the generator's
load nor a counting bug in it can cancel itself out. Its clock is CLOCK_MONOTONIC, which all processes of a host share.

    python -m tests.golden_server --port 18300 --delay-s 0.005 --stall-s 0.2 --stall-every-s 1
    curl localhost:18300/golden/log

In a test:

    with GoldenServer(delay_s=0.005, error_every=10) as server:
        ...  # send requests to server.url
        assert len(server.log()["requests"]) == sent
"""

import argparse
import asyncio
import contextlib
import dataclasses
import gc
import http.client
import json
import math
import os
import select
import selectors
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, cast

from tests.golden_behaviour import Behaviour, Entry, Record
from tests.golden_memory import ROUTE, Memory, over_http
from tests.golden_tensors import Answers, BadRequestError, Request, compute, decode, encode, spoil

REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
READY_WITHIN_S = 20.0


class PreciseSelector(selectors.EpollSelector):
    """epoll whose time-outs are not rounded up to whole milliseconds, which is what asyncio's timers rest on."""

    def __init__(self, *, awake: bool) -> None:
        super().__init__()
        self._awake = awake

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait on the epoll descriptor itself with select(2), which takes microseconds; then collect."""
        if self._awake:
            end = math.inf if timeout is None else time.monotonic() + timeout
            while not (found := super().select(0)) and time.monotonic() < end:
                pass
            return found
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


class Service:
    """The one model and its record."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.inputs, self.outputs = behaviour.input_tensors, behaviour.output_tensors
        self.answers = Answers.read(behaviour.answers, self.inputs) if behaviour.answers else None
        self.memory = Memory()
        self.connections = 0
        self.reset()

    def reset(self) -> None:
        """Forget everything received so far; the stalls' anchor starts anew."""
        self.record = Record(self.behaviour, time.monotonic_ns())

    def metadata(self) -> dict[str, Any]:
        """The content of GET /v2/models/M."""
        inputs, outputs = (
            [{"name": t.name, "datatype": t.datatype, "shape": [-1, *t.dims]} for t in tensors]
            for tensors in (self.inputs, self.outputs)
        )
        name = self.behaviour.model
        return {"name": name, "versions": ["1"], "platform": "golden", "inputs": inputs, "outputs": outputs}

    def config(self) -> dict[str, Any]:
        """The content of GET /v2/models/M/config."""
        inputs, outputs = (
            [{"name": t.name, "data_type": _config_type(t.datatype), "dims": list(t.dims)} for t in tensors]
            for tensors in (self.inputs, self.outputs)
        )
        name, batch = self.behaviour.model, self.behaviour.max_batch_size
        return {"name": name, "backend": "golden", "max_batch_size": batch, "input": inputs, "output": outputs}

    def answer(self, path: str) -> Any:
        """Answer everything but inference and reset; None where there is no such endpoint."""
        model = f"/v2/models/{self.behaviour.model}"
        answers: dict[str, Callable[[], Any]] = {
            "/v2": lambda: {
                "name": "golden",
                "version": "1",
                "extensions": ["binary_tensor_data", "model_configuration", "statistics"],
            },
            "/v2/health/live": dict,
            "/v2/health/ready": dict,
            "/v2/models/stats": self.record.statistics,
            "/v2/repository/index": lambda: [{"name": self.behaviour.model, "version": "1", "state": "READY"}],
            model: self.metadata,
            f"{model}/ready": dict,
            f"{model}/config": self.config,
            f"{model}/stats": self.record.statistics,
            "/v2/systemsharedmemory/status": lambda: list(self.memory.status["system"].values()),
            "/v2/cudasharedmemory/status": lambda: list(self.memory.status["cuda"].values()),
            "/golden/log": self.record.log,
        }
        answer = answers.get(path.replace("/versions/1", "").rstrip("/"))
        return None if answer is None else answer()


def _config_type(datatype: str) -> str:
    return "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"


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
        if name in service.behaviour.aliases:
            path = path.replace(name, service.behaviour.model, 1)
        model = f"/v2/models/{service.behaviour.model}"
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
            request = decode(
                body,
                None if length is None else int(length),
                service.inputs,
                service.behaviour.max_batch_size,
                service.memory.read,
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
        body, header_length = encode(service.behaviour.model, request, values)
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


async def _serve(behaviour: Behaviour, host: str, port: int) -> None:
    loop, service = asyncio.get_running_loop(), Service(behaviour)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    servers = [
        await loop.create_server(lambda: Connection(service), host, number, backlog=4096, ssl=context)
        for number, context in ([(port, _tls(behaviour)), (0, None)] if behaviour.certificate else [(port, None)])
    ]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    print(json.dumps({"port": ports[0], "plain": ports[-1], "pid": os.getpid()}), flush=True)  # noqa: T201 - for whoever started it
    await stop.wait()
    for server in servers:
        server.close()


def _tls(behaviour: Behaviour) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=behaviour.client_ca or None)
    context.load_cert_chain(behaviour.certificate)
    context.verify_mode = ssl.CERT_REQUIRED if behaviour.client_ca else ssl.CERT_NONE
    return context


def main() -> None:
    """Serve until SIGINT or SIGTERM; the port is printed as one JSON line once connections are taken."""
    parser = argparse.ArgumentParser(description=Behaviour.__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="where to listen")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--config", default="{}", help="JSON with the names below; options given beside it win")
    for field in dataclasses.fields(Behaviour):
        option: dict[str, Any] = {"type": type(field.default)}
        if isinstance(field.default, tuple):
            option = {"nargs": "+"}
        elif isinstance(field.default, bool):
            option = {"action": "store_true"}
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", default=argparse.SUPPRESS, help=f"default {field.default}", **option
        )
    options = vars(parser.parse_args())
    host, port = options.pop("host"), options.pop("port")
    given = json.loads(options.pop("config")) | options
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    behaviour = Behaviour(**fields)
    gc.disable()  # a collection over a long record would be a stall that nobody configured
    loop = asyncio.SelectorEventLoop(PreciseSelector(awake=behaviour.awake))
    with contextlib.closing(loop):
        loop.run_until_complete(_serve(behaviour, host, port))


class GoldenServer:
    """A golden server in its own process, for the length of a `with` block; takes the fields of Behaviour."""

    def __init__(self, *, port: int = 0, **behaviour: Any) -> None:
        self.behaviour = Behaviour(**behaviour)  # a mistake shows here, not in the child's log
        self.port = port
        self._config = json.dumps(behaviour)

    @property
    def address(self) -> str:
        """host:port, as tritonclient takes it."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """http://host:port, https:// with a certificate."""
        return f"{'https' if self.behaviour.certificate else 'http'}://{self.address}"

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def __enter__(self) -> Self:
        """Start it and wait until it takes connections. Raises TimeoutError or RuntimeError."""
        command = [sys.executable, "-m", "tests.golden_server", "--port", str(self.port), "--config", self._config]
        checkout = Path(__file__).resolve().parent.parent
        self._process = subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        try:
            if not select.select([self._process.stdout], [], [], READY_WITHIN_S)[0]:
                raise TimeoutError(f"the golden server is not up after {READY_WITHIN_S} s")
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(f"the golden server ended with status {self._process.wait(READY_WITHIN_S)}")
            ports = json.loads(line)
            self.port, self._plain = ports["port"], ports["plain"]
            self._call("GET", "/golden/log")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process; safe to call twice."""
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def log(self) -> dict[str, Any]:
        """What the server really received: see Record.log."""
        log: dict[str, Any] = json.loads(self._call("GET", "/golden/log"))
        return log

    def requests(self) -> list[dict[str, Any]]:
        """The inference requests of the log, in order of arrival: see Entry."""
        requests: list[dict[str, Any]] = self.log()["requests"]
        return requests

    def reset(self) -> None:
        """Forget what was received."""
        self._call("POST", "/golden/reset")

    def _call(self, method: str, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._plain, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path)
            response = connection.getresponse()
            body = response.read()
        if response.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{method} {path} answered {response.status}: {body[:200]!r}")
        return body


if __name__ == "__main__":
    main()
