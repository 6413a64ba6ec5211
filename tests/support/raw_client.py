"""Inference requests byte for byte over a socket, where a test wants to see what really comes back."""

import json
import socket
from typing import Any

import numpy as np

from tests.golden.server import GoldenServer


def body(batch: int = 1, width: int = 64) -> bytes:
    header = json.dumps(
        {
            "inputs": [
                {
                    "name": "INPUT0",
                    "datatype": "FP32",
                    "shape": [batch, width],
                    "parameters": {"binary_data_size": 4 * batch * width},
                }
            ],
            "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}],
        }
    ).encode()
    tensor = np.arange(batch * width, dtype="f4").tobytes()
    head = (
        f"POST /v2/models/golden/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: {len(header)}\r\n"
        f"Content-Length: {len(header) + len(tensor)}\r\n\r\n"
    )
    return head.encode() + header + tensor


def connect(server: GoldenServer, timeout_s: float = 10) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive(connection: socket.socket) -> tuple[int, dict[str, Any], bytes]:
    """Status, the JSON header and the binary rest of one response."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += (got := connection.recv(65536))
        if not got:
            raise ConnectionError("closed inside the head")
    head, _, data = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    length = int(headers["content-length"])
    while len(data) < length:
        data += (got := connection.recv(65536))
        if not got:
            raise ConnectionError("closed inside the body")
    assert len(data) == length
    header = int(headers.get("inference-header-content-length", length))
    return int(first.split()[1]), json.loads(data[:header]), data[header:]


def exchange(connection: socket.socket, request: bytes | None = None) -> tuple[int, Any, bytes]:
    connection.sendall(request or body())
    return receive(connection)
