"""The golden server as a process: the oracle of a load generator's meter, whose own errors cannot cancel out in it.

    python -m servemark.calibration.golden.server --config '{"delay_s": 0.005, "stall_s": 0.2, "stall_every_s": 1}'
    curl localhost:PORT/golden/log

In Python:

    with GoldenServer(Behaviour(delay_s=0.005)) as server:
        ...  # send requests to server.url
        assert len(server.log()["requests"]) == sent
"""

import argparse
import contextlib
import dataclasses
import gc
import http.client
import json
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

from servemark import interrupts
from servemark.calibration.golden.behaviour import Behaviour
from servemark.calibration.golden.connection import Connection, Loop, Service
from servemark.errors import ServerError
from servemark.machine import scheduling
from servemark.machine.scheduling import Priority
from servemark.paths import CHECKOUT

WITHIN_S = 60.0
_BACKLOG = 4096
Listener = tuple[socket.socket, ssl.SSLContext | None]


def serve(
    service: Service[Any],
    connection: Callable[..., Connection[Any]],
    listeners: Sequence[Listener],
) -> None:
    """Serve until the process ends."""
    loop = Loop()

    def accept(listener: socket.socket, context: ssl.SSLContext | None, _mask: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = listener.accept()
                if context:
                    # The first recv shakes hands.
                    accepted.setblocking(False)
                    accepted = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
                connection(service, loop, accepted)

    for listener, context in listeners:
        listener.setblocking(False)
        loop.watch(listener, partial(accept, listener, context))
    if service.behaviour.realtime:
        with contextlib.suppress(OSError):
            scheduling.schedule(Priority.REALTIME, scheduling.Attributes.now())
    gc.disable()  # a collection over a long record would be a stall that nobody configured
    loop.run()


def main(
    make: Callable[..., Behaviour] = Behaviour,
    service: Callable[[Any], Service[Any]] = Service,
    connection: Callable[..., Connection[Any]] = Connection,
    tls: Callable[[Any], ssl.SSLContext | None] = lambda _behaviour: None,
    more: Callable[[Any], Sequence[socket.socket]] = lambda _behaviour: (),
) -> None:
    """Serve until a signal, at `more` sockets too.

    The ports are printed as one JSON line once connections are taken: see GoldenProcess.
    """
    parser = argparse.ArgumentParser(description=Behaviour.__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="where to listen")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--config", default="{}", help="JSON with fields of Behaviour")
    options = parser.parse_args()
    interrupts.end_with_parent(signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    interrupts.let_through()
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in json.loads(options.config).items()}
    behaviour = make(**fields)
    context = tls(behaviour)
    asked: list[tuple[int, ssl.SSLContext | None]] = [(options.port, context), *([(0, None)] if context else [])]
    listeners = [(socket.create_server((options.host, port), backlog=_BACKLOG), how) for port, how in asked]
    ports = [listener.getsockname()[1] for listener, _ in listeners]
    others: list[Listener] = [(listener, None) for listener in more(behaviour)]
    print(json.dumps({"port": ports[0], "plain": ports[-1], "pid": os.getpid()}), flush=True)  # noqa: T201 - for whoever started it
    serve(service(behaviour), connection, [*listeners, *others])


class GoldenProcess:
    """A golden server in a process of its own, whatever protocol it speaks, for the length of a `with` block.

    It runs `module`, which takes its behaviour as JSON and prints its ports as one JSON line once it takes connections:
    `port`, and `plain`, which is the same one or, beside one with TLS, one without it.
    """

    def __init__(self, module: str, behaviour: Any, scheme: str) -> None:
        self.behaviour = behaviour
        self.port = self.plain_port = 0
        self.config = json.dumps(dataclasses.asdict(behaviour))
        self._scheme = f"{scheme}s" if getattr(behaviour, "certificate", "") else scheme
        self._command = [sys.executable, "-m", module, "--config", self.config]

    @property
    def address(self) -> str:
        """host:port, as tritonclient takes it."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """scheme://host:port, the scheme with an s where there is a certificate."""
        return f"{self._scheme}://{self.address}"

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def __enter__(self) -> Self:
        """Start it and wait until it takes connections. Raises ServerError."""
        with interrupts.held_back():
            self._process = subprocess.Popen(self._command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        try:
            if not select.select([self._process.stdout], [], [], WITHIN_S)[0]:
                raise ServerError(f"the golden server is not up after {WITHIN_S} s")
            line = self._process.stdout.readline()
            if not line:
                raise ServerError(f"the golden server ended with status {self._process.wait(WITHIN_S)}")
            ports = json.loads(line)
            self.port, self.plain_port = ports["port"], ports["plain"]
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
            self._process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait(WITHIN_S)


class GoldenServer(GoldenProcess):
    """A golden server over HTTP."""

    def __init__(self, behaviour: Behaviour, module: str = __name__) -> None:
        super().__init__(module, behaviour, "http")

    def log(self) -> dict[str, Any]:
        """Return the server's record of its requests: see Record.log."""
        log: dict[str, Any] = json.loads(self._call("GET", "/golden/log"))
        return log

    def times(self) -> dict[str, list[Any]]:
        """Return the requests in columns: see Record.times."""
        times: dict[str, list[Any]] = json.loads(self._call("GET", "/golden/times"))
        return times

    def reset(self) -> None:
        """Forget what was received."""
        self._call("POST", "/golden/reset")

    def _call(self, method: str, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.plain_port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise ServerError(f"{method} {path} answered {answer.status}: {body[:200]!r}")
        return body


if __name__ == "__main__":
    main()
