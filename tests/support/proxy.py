"""A proxy of raw TCP in a process of its own, which connects to its server when it is connected to."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_CODE = """
import asyncio, sys

async def pass_on(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def accepted(reader, writer):
    there = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer), return_exceptions=True)

async def main():
    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@dataclass(frozen=True)
class Proxy:
    """A running proxy."""

    pid: int
    port: int

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Hold a connection through it, over which an echo has come."""
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.port), timeout=30)) as connection:
            connection.sendall(b"a")
            assert connection.recv(1) == b"a"
            yield


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    """Run a proxy before a port of this machine."""
    command = [sys.executable, "-c", _CODE, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Proxy(process.pid, int(process.stdout.readline()))
        finally:
            process.kill()
