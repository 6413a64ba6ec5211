"""A server over HTTP that says of itself what is right, and answers requests with what a fault wants."""

import contextlib
import json
import math
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

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
