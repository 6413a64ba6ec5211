"""The golden server's model and protocol: HTTP/1.1 as KServe v2 has it, each answer when it is due, on epoll."""

import contextlib
import heapq
import itertools
import json
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, NamedTuple, cast
from urllib.parse import quote

from servemark.calibration.golden.behaviour import Behaviour, E, Entry, Record

WIDTH = 64
MAX_BATCH = 64
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 500: "Internal Server Error"}
_READ = 1 << 18
_SO_TIMESTAMPNS = 35
"""Option and control message on x86-64 and ARM; Python's socket module has no name for it."""
_STAMP_ROOM = socket.CMSG_SPACE(16)
_TRIES, _AT_ONCE_NS = 5, 5_000
_OLDEST_NS = 10_000_000_000
"""A stamp that is older, or in the future, is of a clock that was set meanwhile."""


class Loop:
    """Sockets with a handler each, and calls at a time of CLOCK_MONOTONIC."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def watch(self, watched: socket.socket, handler: Callable[[int], None]) -> None:
        """Call the handler with epoll's mask whenever the socket has something to read."""
        self._handlers[watched.fileno()] = handler
        self._poll.register(watched, select.EPOLLIN)

    def watch_writing(self, watched: socket.socket, on: bool) -> None:
        """Call its handler too whenever the socket takes more."""
        self._poll.modify(watched, select.EPOLLIN | select.EPOLLOUT * on)

    def forget(self, watched: socket.socket) -> None:
        """Call its handler no more."""
        if self._handlers.pop(watched.fileno(), None):
            self._poll.unregister(watched)

    def call_at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Call once, not before a time."""
        heapq.heappush(self._timers, (time_ns, next(self._order), call))

    def run(self) -> None:
        """Serve until the process ends."""
        while True:
            self.turn()

    def turn(self) -> None:
        """Wait for what comes first, and handle all that is there."""
        timers = self._timers
        for descriptor, mask in self._events():
            if handler := self._handlers.get(descriptor):
                handler(mask)
        while timers and timers[0][0] <= time.monotonic_ns():
            heapq.heappop(timers)[2]()

    def _events(self) -> list[tuple[int, int]]:
        if not self._timers:
            return self._poll.poll()
        if (left_ns := self._timers[0][0] - time.monotonic_ns()) > 0:
            # epoll_wait(2) takes milliseconds; select(2) on its descriptor takes microseconds.
            select.select([self._poll], [], [], left_ns / 1e9)
        return self._poll.poll(0)


def response(status: int, body: bytes, header_length: int | None = None) -> bytes:
    """Write a response, whose body has binary tensors after a JSON header where its length is given."""
    binary = "" if header_length is None else f"Inference-Header-Content-Length: {header_length}\r\n"
    kind = "application/json" if header_length is None else "application/octet-stream"
    reason = REASONS.get(status, "Status")
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\n{binary}Content-Length: {len(body)}\r\n"
    return f"{head}Connection: keep-alive\r\n\r\n".encode() + body  # which ab, of HTTP/1.0, waits for


def error(status: int, message: str) -> bytes:
    """Write a refusal, as KServe has it."""
    return response(status, json.dumps({"error": message}).encode())


def came(stamps: list[tuple[int, int, bytes]]) -> int:
    """Return when bytes came (ns of the monotonic clock): when the kernel had them, not when this process woke up.

    Where the kernel gives no stamp, it is now.
    """
    now = time.monotonic_ns()
    if not stamps:
        return now
    # Both clocks at one moment: a process that loses its core between two readings reads them again.
    for _ in range(_TRIES):
        before, real, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if after - before < _AT_ONCE_NS:
            break
    seconds, ns = struct.unpack_from("qq", stamps[0][2])
    age = real - (seconds * 1_000_000_000 + ns)
    return min(after - age, now) if 0 <= age < _OLDEST_NS else now


class Request(NamedTuple):
    """One request as it came; `arrival_ns` is that of its first bytes."""

    method: str
    path: str
    headers: dict[str, str]
    head: bytes
    body: bytes
    arrival_ns: int
    connection: int


class Connection(Generic[E]):
    """One connection with keep-alive; a pipelined request waits for the response before it."""

    def __init__(self, service: "Service[E]", loop: Loop, accepted: socket.socket) -> None:
        self.service, self.loop, self.socket = service, loop, accepted
        self.buffer, self.unsent = bytearray(), bytearray()
        self.head: tuple[str, str, dict[str, str], int] | None = None  # method, path, headers, body's offset
        self.arrival_ns = 0
        self.busy = self.closed = self.closing = False
        self.secure = isinstance(accepted, ssl.SSLSocket)
        service.connections += 1
        service.record.connections += 1
        self.number = service.connections
        accepted.setblocking(False)
        self._room = 0
        if accepted.family != socket.AF_UNIX:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError):
                accepted.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
                self._room = _STAMP_ROOM
        loop.watch(accepted, self._ready)

    def _ready(self, mask: int) -> None:
        if mask & select.EPOLLOUT:
            self._flush()
        more = True
        while more and not self.closed:
            try:
                # An SSLSocket has no recvmsg.
                stamps: list[tuple[int, int, bytes]] = []
                if self.secure:
                    data = self.socket.recv(_READ)
                else:
                    data, stamps, _, _ = self.socket.recvmsg(_READ, self._room)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError:
                data = b""
            if not data:
                self.close()
                return
            self._received(data, came(stamps))
            more = self.secure  # what OpenSSL has decrypted is not seen by epoll

    def _received(self, data: bytes, came_ns: int) -> None:
        """Note the arrival of a head's first bytes, then handle what is complete."""
        service = self.service
        if not self.buffer:
            self.arrival_ns = came_ns
            if len(data) == service.known_bytes and not self.busy and data.startswith(service.known_head):
                self.plan(service.record.admit(self.arrival_ns, self.number), service.known_answer)
                return
        self.buffer += data
        self._advance()

    def _advance(self) -> None:
        while not self.busy and not self.closed and not self.closing:
            if self.head is None:
                if self.buffer and not self.buffer[:1].isalpha():
                    self.write(error(400, "this is no HTTP"))
                    self.close_when_sent()
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
            head = bytes(memoryview(self.buffer)[:offset])
            request = Request(method, path.partition("?")[0], headers, head, body, self.arrival_ns, self.number)
            self.arrival_ns = time.monotonic_ns()
            del self.buffer[:length]
            self.head = None
            self.service.handle(self, request)

    def plan(self, entry: E, answer: bytes) -> None:
        """Answer an inference when it is due."""
        if entry.due_ns > time.monotonic_ns():
            self.busy = True
            # A reset of the record in between must not count this response in the new one.
            self.loop.call_at(entry.due_ns, partial(self.finish, self.service.record, entry, answer))
        else:
            self.finish(self.service.record, entry, answer)

    def finish(self, record: Record[Any], entry: E, answer: bytes) -> None:
        """Answer an inference now, or break it as planned."""
        if self.closed:
            return
        if entry.kind == "reset":
            linger = struct.pack("ii", 1, 0)  # closing now sends RST instead of FIN
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close()
            return
        self.write(answer)
        self.done(record, entry)

    def done(self, record: Record[Any], entry: E) -> None:
        """Note that an answer is written, and go on with what has come meanwhile."""
        record.written(entry, time.monotonic_ns())
        if self.busy:
            self.busy = False
            self._advance()

    def write(self, data: bytes) -> None:
        """Send what the socket takes, and the rest when it takes more."""
        if self.unsent:
            self.unsent += data
        elif (sent := self._send(data)) < len(data):
            self.unsent += data[sent:]
            self.loop.watch_writing(self.socket, on=True)

    def close_when_sent(self) -> None:
        """Close after what has been written."""
        self.closing = True
        if not self.unsent:
            self.close()

    def close(self) -> None:
        """Close now."""
        if not self.closed:
            self.closed = True
            self.unsent.clear()
            self.loop.forget(self.socket)
            self.socket.close()

    def _flush(self) -> None:
        del self.unsent[: self._send(self.unsent)]
        if not self.unsent and not self.closed:
            self.loop.watch_writing(self.socket, on=False)
            if self.closing:
                self.close()

    def _send(self, data: bytes | bytearray) -> int:
        """Bytes that the socket took; all of them where nobody is there to read them."""
        if self.closed:
            return len(data)
        try:
            return self.socket.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError:
            self.close()
            return len(data)


class Service(Generic[E]):
    """A model with FP32[64] in and out, and its record. It answers every inference with the same bytes."""

    entry = cast(type[E], Entry)
    known_head: bytes = b""
    known_bytes: int = 0
    """Head and length of the last inference: another one like it is not read again, which makes the server fast."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.path = f"/v2/models/{quote(behaviour.model, safe='')}"
        self.connections = 0
        self.reset()
        output = {"name": "OUTPUT0", "datatype": "FP32", "shape": [1, WIDTH]}
        outputs = [{**output, "parameters": {"binary_data_size": 4 * WIDTH}}]
        header = json.dumps({"model_name": behaviour.model, "model_version": "1", "outputs": outputs}).encode()
        self.known_answer = response(200, header + bytes(4 * WIDTH), len(header))

    def reset(self) -> None:
        """Forget everything received so far; the stalls' anchor starts anew."""
        self.record: Record[E] = Record(self.behaviour, self.entry)

    def handle(self, connection: Connection[E], request: Request) -> None:
        """Answer a whole request, at once or when it is due."""
        self.record.paths[f"{request.method} {request.path}"] += 1
        self.route(connection, request)

    def route(self, connection: Connection[E], request: Request) -> None:
        """Do what its path asks for."""
        if request.method == "POST" and request.path in {f"{self.path}/infer", f"{self.path}/versions/1/infer"}:
            self.infer(connection, request)
        elif request.method == "POST" and request.path == "/golden/reset":
            self.reset()
            connection.write(response(200, b"{}"))
        elif (answer := self.answer(request.path)) is not None:
            # Triton's health and readiness endpoints answer with an empty body.
            connection.write(response(200, json.dumps(answer).encode() if answer else b""))
        else:
            refusal = f"{request.method} {request.path}: the golden server serves only {self.path}"
            connection.write(error(404, refusal))

    def infer(self, connection: Connection[E], request: Request) -> None:
        """Plan the answer to an inference."""
        self.known_head, self.known_bytes = request.head, len(request.head) + len(request.body)
        connection.plan(self.record.admit(request.arrival_ns, request.connection), self.known_answer)

    def metadata(self) -> dict[str, Any]:
        """The content of GET /v2/models/M."""
        tensor = {"datatype": "FP32", "shape": [-1, WIDTH]}
        inputs, outputs = [{"name": "INPUT0", **tensor}], [{"name": "OUTPUT0", **tensor}]
        name = self.behaviour.model
        return {"name": name, "versions": ["1"], "platform": "golden", "inputs": inputs, "outputs": outputs}

    def config(self) -> dict[str, Any] | None:
        """The content of GET /v2/models/M/config."""
        tensor = {"data_type": "TYPE_FP32", "dims": [WIDTH]}
        inputs, outputs = [{"name": "INPUT0", **tensor}], [{"name": "OUTPUT0", **tensor}]
        name = self.behaviour.model
        return {"name": name, "backend": "golden", "max_batch_size": MAX_BATCH, "input": inputs, "output": outputs}

    def extensions(self) -> list[str]:
        """KServe's and Triton's extensions that it knows."""
        return ["binary_tensor_data", "model_configuration", "statistics"]

    def more(self) -> dict[str, Callable[[], Any]]:
        """Return further endpoints to read from."""
        return {}

    def answer(self, path: str) -> Any:
        """Answer everything but inference and reset; None where there is no such endpoint."""
        answers: dict[str, Callable[[], Any]] = {
            "/v2": lambda: {"name": "golden", "version": "1", "extensions": self.extensions()},
            "/v2/health/live": dict,
            "/v2/health/ready": dict,
            "/v2/models/stats": self.record.statistics,
            "/v2/repository/index": lambda: [{"name": self.behaviour.model, "version": "1", "state": "READY"}],
            self.path: self.metadata,
            f"{self.path}/ready": dict,
            f"{self.path}/config": self.config,
            f"{self.path}/stats": self.record.statistics,
            "/golden/log": self.record.log,
            "/golden/times": self.record.times,
            **self.more(),
        }
        answer = answers.get(path.replace("/versions/1", "").rstrip("/"))
        return None if answer is None else answer()
