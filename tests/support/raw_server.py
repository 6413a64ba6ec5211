"""A server of raw sockets, for what no well-behaved server does."""

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Self


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
