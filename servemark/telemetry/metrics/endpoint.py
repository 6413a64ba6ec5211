"""Serves the last snapshot over HTTP: `/metrics`, for Prometheus, a browser or curl."""

import socket
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from servemark.telemetry.metrics.exposition import expose
from servemark.telemetry.metrics.snapshot import Snapshot

PATH = "/metrics"
TIMEOUT_S = 10.0
"""A client that says nothing, or takes nothing, for so long is left."""


class Endpoint:
    """An HTTP server on its own threads. Raises OSError where it cannot listen; port 0 is a free one."""

    def __init__(self, host: str, port: int, snapshot: Callable[[], Snapshot | None]) -> None:
        self._server = _Server((host, port), _handler(snapshot))
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_address[1]}{PATH}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that went away."""


def _handler(snapshot: Callable[[], Snapshot | None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = TIMEOUT_S

        def do_GET(self) -> None:
            """Answer one request."""
            if self.path.partition("?")[0] != PATH:
                self._answer(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", f"see {PATH}\n".encode())
                return
            last = snapshot()
            content_type, body = expose(Snapshot({}) if last is None else last, self.headers.get("Accept", ""))
            self._answer(HTTPStatus.OK, content_type, body)

        def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's interface
            """Nobody reads a log of scrapes."""

    return Handler
