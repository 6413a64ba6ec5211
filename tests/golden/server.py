"""The golden server: a KServe v2 server with known delays by construction, which records what it really received.

It is the oracle of the load generator's meter: a process of its own with real sockets, so that neither the generator's
load nor a counting bug in it can cancel itself out. Its clock is CLOCK_MONOTONIC, which all processes of a host share.

    python -m tests.golden.server --port 18300 --delay-s 0.005 --stall-s 0.2 --stall-every-s 1
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
import ssl
import time
from typing import Any

from tests.golden.behaviour import Behaviour
from tests.golden.connection import Connection
from tests.golden.process import GoldenProcess
from tests.golden.service import Service


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


class GoldenServer(GoldenProcess):
    """A golden server in its own process, for the length of a `with` block; takes the fields of Behaviour."""

    def __init__(self, **behaviour: Any) -> None:
        # A mistake in the behaviour shows here, not in the child's log.
        super().__init__("tests.golden.server", Behaviour(**behaviour), "http")

    def log(self) -> dict[str, Any]:
        """Return the server's record of its requests: see Record.log."""
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
        connection = http.client.HTTPConnection("127.0.0.1", self.plain_port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path)
            response = connection.getresponse()
            body = response.read()
        if response.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{method} {path} answered {response.status}: {body[:200]!r}")
        return body


if __name__ == "__main__":
    main()
