"""A server of raw sockets, for what no well-behaved server does; and pages at exact paths."""

import json
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self


@contextmanager
def raw_server(handle: Callable[[socket.socket], None]) -> Iterator[tuple[int, list[int]]]:
    """A server whose connections `handle` talks on; gives its port and the number of its connections."""
    accepted = [0]

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            accepted[0] += 1
            with self.request:
                handle(self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 64

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1], accepted
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def pages(known: Mapping[bytes, Any], *, in_chunks: bool = False) -> Iterator[tuple[str, list[bytes]]]:
    """A server of these answers, which compares paths byte for byte; gives its URL, and the paths that are asked for.

    Bytes are answered as they are, anything else as JSON.
    """
    asked: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        data = b""
        while got := connection.recv(65536):
            data += got
            head, end, rest = data.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
            if not end or len(rest) < int(length[1] if length else 0):
                continue
            data = b""
            asked.append(head.split(b" HTTP/1.1")[0].partition(b" ")[2])
            found = known.get(asked[-1])
            body = found if isinstance(found, bytes) else json.dumps(found or {}).encode()
            status = b"404 Not Found" if found is None else b"200 OK"
            framed = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            if in_chunks:
                framed = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            connection.sendall(b"HTTP/1.1 " + status + b"\r\n" + framed)

    with raw_server(talk) as (port, _):
        yield f"http://127.0.0.1:{port}", asked


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that reads a request and gives this answer, as "host:port"; its client may go before the end."""

    def handle(connection: socket.socket) -> None:
        connection.recv(65536)
        with suppress(OSError):
            answer(connection)

    with raw_server(handle) as (port, _):
        yield f"127.0.0.1:{port}"


class RawServer:
    """Such a server for the length of a `with` block; a subclass talks on its connections in `_handle`."""

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self.port, self.connections = self._stack.enter_context(raw_server(self._handle))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _handle(self, connection: socket.socket) -> None:
        raise NotImplementedError
