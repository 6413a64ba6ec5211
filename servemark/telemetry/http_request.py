"""One HTTP request and its answer: one deadline over all but the look-up of the name, a bounded size.

For questions, not for load.
"""

import contextlib
import io
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import NamedTuple, cast
from urllib.parse import urlsplit

from servemark.machine.addresses import places

MAX_BYTES = 8 << 20
"""Of an answer with its head; Triton's longest, the metrics of many models, are some 100 KiB."""


class Reply(NamedTuple):
    """An answer over HTTP."""

    status: int
    body: bytes
    location: str = ""
    """Goal of a redirect, which nobody follows."""


def place_of(url: str) -> tuple[str, str]:
    """Split a URL into what `ask` takes: "host:port", and the path with its query. Raises ValueError."""
    parts = urlsplit(url)
    return parts.netloc, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def ask(
    endpoint: str,
    path: str,
    *,
    timeout_s: float,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    make_socket: Callable[[int, int], socket.socket] = socket.socket,
) -> Reply:
    """GET from "host:port" or the path of a Unix socket, or POST where there is a body.

    No proxy is asked, no redirect followed, nothing unpacked.

    Under gevent the socket is one of its loop, unless `make_socket` makes another.
    Raises OSError, also where the answer is late or too long, and HTTPException.
    """
    deadline = time.monotonic() + timeout_s
    host = "localhost" if endpoint.startswith("/") else endpoint
    connection = HTTPSConnection(host, context=tls) if tls else HTTPConnection(host)
    # http.client refuses other letters than ASCII in a path; Triton knows a model by them alone.
    connection._encode_request = str.encode  # type: ignore[attr-defined]
    with contextlib.closing(connection):
        found = [(socket.AF_UNIX, endpoint)] if host != endpoint else places(connection.host, connection.port)
        connection.sock = _connected(host, found, deadline, make_socket)
        if tls:
            _hurry(connection.sock, deadline)
            connection.sock = tls.wrap_socket(connection.sock, server_hostname=connection.host)
        method = "GET" if body is None else "POST"
        _hurry(connection.sock, deadline)
        connection.request(method, path, body, dict(headers or {}))
        # All that it asks of its socket is a file to read.
        with HTTPResponse(cast(socket.socket, _Answer(connection.sock, deadline)), method=method) as response:
            try:
                response.begin()
                return Reply(response.status, response.read(), response.headers.get("Location", ""))
            except (MemoryError, OverflowError, ValueError) as error:
                # A length of the body, or of a chunk, that is none.
                raise HTTPException(f"an answer that cannot be read: {error}") from error


def _connected(
    host: str,
    addresses: Sequence[tuple[int, str | tuple[str | int, ...]]],
    deadline: float,
    make_socket: Callable[[int, int], socket.socket],
) -> socket.socket:
    """Connect to the first address of a name that takes it. Raises OSError, and that of the last address."""
    last: OSError = OSError(f"{host} has no address")
    for family, address in addresses:
        connected = make_socket(family, socket.SOCK_STREAM)
        try:
            _hurry(connected, deadline)
            connected.connect(address)
        except (OSError, OverflowError) as error:  # of a number that is no port's
            connected.close()
            last = error if isinstance(error, OSError) else OSError(str(error))
        else:
            return connected
    raise last


def _hurry(source: socket.socket, deadline: float) -> None:
    """Give the next call of a socket the time that is left. Raises TimeoutError where none is."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("timed out")
    source.settimeout(left_s)


class _Answer(io.RawIOBase):
    """Raw stream of the bytes that a socket receives until a deadline."""

    def __init__(self, source: socket.socket, deadline: float) -> None:
        self._source, self._deadline, self._room = source, deadline, MAX_BYTES

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]  # the base class takes any buffer
        _hurry(self._source, self._deadline)
        count = self._source.recv_into(buffer)
        self._room -= count
        if self._room < 0:
            raise OSError(f"an answer of more than {MAX_BYTES >> 20} MiB")
        return count
