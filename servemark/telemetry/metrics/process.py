"""The process that exposes and sends a run's metrics: it reads snapshots from stdin until that ends.

Over HTTP it serves the last one at `/metrics`, for Prometheus, a browser or curl.
"""

import json
import pickle
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from servemark.errors import reason
from servemark.output import note
from servemark.results.schema.run import Telemetry
from servemark.telemetry.metrics.catalog import Snapshot, Span
from servemark.telemetry.metrics.exposition import expose

EVERY_S = 5.0

Send = Callable[[Snapshot], None]
"""Sends one snapshot. Raises OSError or ValueError with the reason where it was not taken."""


class Pusher:
    """The place to which snapshots go; the first failure is told, and none stops anything."""

    def __init__(self, url: str, send: Send, *, every_s: float = EVERY_S) -> None:
        self._send, self._every_s = send, every_s
        self._sent: Telemetry = {"to": "otlp", "url": url, "sent": 0, "failed": 0, "error": None}
        self._last: Snapshot | None = None
        self._final, self._ended = Event(), Event()
        Thread(target=self._run, daemon=True).start()

    def take(self, snapshot: Snapshot) -> None:
        """Have a newer snapshot sent when it is time."""
        self._last = snapshot

    def finish(self, within_s: float) -> Telemetry:
        """Send the last one now, and no more; wait for it within `within_s`, and return the counts."""
        self._final.set()
        ended = self._ended.wait(within_s)
        error = self._sent["error"] if ended else "the last snapshot was not taken in time"
        return {**self._sent, "failed": self._sent["failed"] + (not ended), "error": error}

    def _run(self) -> None:
        final = False
        while not final:
            final = self._final.wait(self._every_s)
            if self._last is not None:
                self._try(self._last)
        self._ended.set()

    def _try(self, snapshot: Snapshot) -> None:
        try:
            self._send(snapshot)
        except (OSError, ValueError) as error:
            if not self._sent["failed"]:
                note(f"metrics: OTLP {self._sent['url']}: {reason(error)}; the run goes on")
            self._sent["failed"] += 1
            self._sent["error"] = reason(error)
        else:
            self._sent["sent"] += 1


PATH = "/metrics"
TIMEOUT_S = 10.0
"""A client that says nothing, or takes nothing, for so long is left."""


class Endpoint(ThreadingHTTPServer):
    """Serves the last snapshot on threads of its own. Raises OSError where it cannot listen; port 0 is a free one."""

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.last = Snapshot({})
        super().__init__((host, port), _Handler)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.server_address[1]}{PATH}"
        Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S
    server: Endpoint

    def do_GET(self) -> None:
        """Answer one request."""
        if self.path.partition("?")[0] == PATH:
            self._answer(HTTPStatus.OK, *expose(self.server.last, self.headers.get("Accept", "")))
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", f"see {PATH}\n".encode())

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's interface
        """Nobody reads a log of scrapes."""


class Metrics:
    """The last snapshot, and where it goes. Raises OSError where it cannot listen."""

    def __init__(self, host: str, port: int | None, otlp: str) -> None:
        self._endpoint = None if port is None else Endpoint(host, port)
        self.url = self._endpoint.url if self._endpoint else None
        self._collector = self._pusher = None
        if otlp:
            from servemark.telemetry.metrics.otlp import Collector  # whose package is an extra

            self._collector = Collector(otlp)
            self._pusher = Pusher(otlp, self._collector.send)

    def take(self, snapshot: Snapshot) -> None:
        """Expose another snapshot, and send it when it is time."""
        if self._endpoint is not None:
            self._endpoint.last = snapshot
        if self._pusher is not None:
            self._pusher.take(snapshot)

    def take_spans(self, spans: Iterable[Span]) -> None:
        """Send the spans of some requests when it is time."""
        if self._collector is not None:
            self._collector.take(spans)

    def finish(self, within_s: float) -> list[Telemetry]:
        """Send the last one; what was sent, after so long at most."""
        return [self._pusher.finish(within_s)] if self._pusher is not None else []


def main(arguments: list[str]) -> None:
    """Say on stdout where the endpoint is, or what is wrong; then follow the run."""
    # The run that has started it says when it ends, also after a Ctrl-C that reached both: stdin ends then.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        metrics = Metrics(**json.loads(arguments[0]))
    except OSError as error:
        _say({"error": error.strerror or str(error)})
        return
    _say({"url": metrics.url})
    while True:
        try:
            what, content = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that has started this one
        except (EOFError, pickle.UnpicklingError):
            return
        if what == "snapshot":
            metrics.take(content)
        elif what == "spans":
            metrics.take_spans(content)
        else:
            _say({"sent": metrics.finish(content)})


def _say(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)  # noqa: T201 - for the process that has started this one


if __name__ == "__main__":
    main(sys.argv[1:])
