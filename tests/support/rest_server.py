"""A double of a server with a REST API: it takes JSON, answers with JSON, and refuses who has not the right header."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

Document = dict[str, Any]
Answer = tuple[int, Document | None]


class RestServer(ThreadingHTTPServer):
    """One on loopback; a subclass answers."""

    def __init__(self, authorization: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.authorization = authorization
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        """Give status and document; what a GET asks for is JSON here too."""
        raise NotImplementedError


class _Answering(BaseHTTPRequestHandler):
    server: RestServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        place = urlsplit(self.path)
        answered: Answer = 401, {"message": "Unauthorized"}
        if self.server.authorization in ("", self.headers.get("Authorization")):
            asked = json.dumps(dict(parse_qsl(place.query))).encode()
            answered = self.server.answer(self.command, place.path, body or asked)
        status, document = answered
        content = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST  # noqa: N815 - http.server's interface

    def log_message(self, *_: object) -> None:
        pass


Server = TypeVar("Server", bound=RestServer)


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    """Serve for the length of a `with` block."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
