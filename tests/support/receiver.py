"""A server that takes what is pushed to it, or does not: it refuses, or never answers."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


@dataclass
class Receiver:
    """Requests that came: method, path, headers in lower case, body."""

    url: str = ""
    status: int = 200
    silent: bool = False
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)


@contextlib.contextmanager
def receiver(*, status: int = 200, silent: bool = False) -> Iterator[Receiver]:
    """One on loopback."""
    found, ended = Receiver(status=status, silent=silent), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.requests.append((self.command, self.path, headers, body))
            if found.silent:
                ended.wait(60)
                return
            self.send_response(found.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        ended.set()
        server.shutdown()
        server.server_close()


def metrics_of(found: Receiver) -> dict[str, Any]:
    """The metrics of the last request of OTLP, by name."""
    [body] = [body for _, path, _, body in found.requests if path == "/v1/metrics"][-1:]
    [resource] = ExportMetricsServiceRequest.FromString(body).resource_metrics
    return {metric.name: metric for metric in resource.scope_metrics[0].metrics}
