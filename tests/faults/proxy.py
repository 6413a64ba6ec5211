"""A TCP proxy before a server: passes bytes on, or delays, drips, cuts or swallows them, from when it is told."""

import contextlib
import select
import socket
import time
from typing import Literal

from tests.faults.raw_http import reset
from tests.support.raw_server import RawServer

Mode = Literal["pass", "delay", "truncate", "reset", "swallow", "stall"]
DELAY_S = 0.05


class Proxy(RawServer):
    """The proxy, for the length of a `with` block; `mode` is what happens to each answer of the server.

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
