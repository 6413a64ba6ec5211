"""A server over HTTP that says of itself what is right, and answers requests as a fault wants; and a TCP proxy."""

import contextlib
import json
import math
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from servemark.workload import get
from servemark.workload.tensor import Tensor
from tests.support.raw_server import RawServer

HEAD_END = b"\r\n\r\n"
IDENTITY = (Tensor("INPUT0", "FP32", (64,)),), (Tensor("OUTPUT0", "FP32", (64,)),)


def reply(body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join(lines).encode() + HEAD_END + body


def describe(tensor: Tensor) -> dict[str, Any]:
    """A tensor as metadata has it."""
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": [-1, *tensor.shape]}


class Front(RawServer):
    """The server, for the length of a `with` block.

    `answer` gets a connection and the number of the request, from 1, and returns what is sent; where it returns
    nothing the connection is over. `documents` are what it says of itself, by the last part of the path.
    """

    def __init__(
        self,
        answer: Callable[[socket.socket, int], bytes] | None = None,
        *,
        workload: str = "",
        documents: Mapping[str, bytes] | None = None,
    ) -> None:
        found = get(workload) if workload else None
        inputs, self.outputs = (found.inputs, found.outputs) if found else IDENTITY
        self.model = f"{workload}_onnxruntime" if workload else "golden"
        metadata: dict[str, Any] = {"name": self.model, "versions": ["1"], "platform": "raw"}
        metadata |= {"inputs": [*map(describe, inputs)], "outputs": [*map(describe, self.outputs)]}
        self.documents = {"ready": b"", self.model: json.dumps(metadata).encode(), **(documents or {})}
        self.requests = 0
        header = {"model_name": self.model, "model_version": "1", "outputs": [*map(_output, self.outputs)]}
        self.header, self.values = json.dumps(header).encode(), bytes(sum(map(_size, self.outputs)))
        self.good: bytes = reply(self.header + self.values, f"Inference-Header-Content-Length: {len(self.header)}")
        self._answer = answer or (lambda _connection, _number: self.good)

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def received(self) -> int:
        """Whole requests until now."""
        return self.requests

    def loaded(self) -> bool:
        """True while a run is under way."""
        return self.requests > 40

    def _handle(self, connection: socket.socket) -> None:
        buffer = b""
        with contextlib.suppress(OSError):
            while True:
                while (end := buffer.find(HEAD_END)) < 0:
                    if not (data := connection.recv(1 << 16)):
                        return
                    buffer += data
                head, begin = buffer[:end].decode("latin-1"), end + len(HEAD_END)
                fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:])
                length = begin + int(fields.get("content-length", 0))
                while len(buffer) < length:
                    if not (data := connection.recv(1 << 16)):
                        return
                    buffer += data
                buffer = buffer[length:]
                path = head.split(" ", 2)[1].rstrip("/").rpartition("/")[2]
                if path == "infer":
                    self.requests += 1
                    said = self._answer(connection, self.requests)
                else:
                    known = self.documents.get(path)
                    said = reply(b'{"error": "none here"}', status="404 Not Found") if known is None else reply(known)
                if not said:
                    return
                connection.sendall(said)


def _size(tensor: Tensor) -> int:
    """Bytes of one sample."""
    return math.prod(tensor.shape) * tensor.dtype.itemsize


def _output(tensor: Tensor) -> dict[str, Any]:
    shape = [1, *tensor.shape]
    return {**describe(tensor), "shape": shape, "parameters": {"binary_data_size": _size(tensor)}}


def reset(connection: socket.socket) -> bytes:
    """Have a connection end with RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return b""


Mode = Literal["pass", "delay", "truncate", "reset", "swallow", "stall"]
DELAY_S = 0.05


class Proxy(RawServer):
    """A TCP proxy before a server for the length of a `with` block; `mode` is what happens to each of its answers.

    `truncate` and `reset` end a connection in the middle of an answer, `swallow` passes nothing on, and `stall` passes
    nothing on either way on new connections.
    """

    def __init__(self, port: int, mode: Mode = "pass") -> None:
        self.target, self.mode = port, mode
        self._open: set[socket.socket] = set()

    def cut(self) -> None:
        """End all connections."""
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _handle(self, client: socket.socket) -> None:
        self._open.add(client)
        with contextlib.suppress(OSError):
            if self.mode == "stall":
                client.recv(1 << 16)
                while client.recv(1 << 16):
                    pass
                return
            with socket.create_connection(("127.0.0.1", self.target)) as server:
                self._pass_on(client, server)
        self._open.discard(client)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            ready, _, _ = select.select([client, server], [], [])
            if client in ready:
                if not (data := client.recv(1 << 16)):
                    return
                server.sendall(data)
            if server in ready and not ((data := server.recv(1 << 16)) and self._answer(client, data)):
                return

    def _answer(self, client: socket.socket, data: bytes) -> bool:
        """Send a piece of an answer; return True if the connection goes on."""
        if self.mode in {"truncate", "reset"}:
            client.sendall(data[: len(data) // 2])
            if self.mode == "reset":
                reset(client)
            return False
        if self.mode == "delay":
            time.sleep(DELAY_S)
        if self.mode != "swallow":
            client.sendall(data)
        return True
