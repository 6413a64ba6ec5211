"""One question over HTTP: late, long, moved and packed answers."""

import gzip
import socket
import ssl
import time
from collections.abc import Callable
from http.client import HTTPException
from types import SimpleNamespace
from typing import Any

import pytest

from servemark.telemetry import http_request
from servemark.telemetry.http_request import Reply, ask
from tests.support.raw_server import answering

HEAD = b"HTTP/1.1 200 OK\r\n"


def of(answer: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(answer)


def dripping(start: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.sendall(start)
        while True:
            connection.sendall(b"x")
            time.sleep(0.02)

    return answer


@pytest.mark.parametrize(
    "answer", [b"Content-Length: 2\r\n\r\nhi", b"\r\nhi", b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"]
)
def test_an_answer(answer: bytes) -> None:
    with answering(of(HEAD + answer)) as endpoint:
        assert ask(endpoint, "/", timeout_s=5) == Reply(200, b"hi")


@pytest.mark.parametrize(
    "start",
    [b"HTTP/1.1 200 OK\r\nX-Slow: ", HEAD + b"\r\n", HEAD + b"Content-Length: 100000\r\n\r\n"],
    ids=["head", "body without length", "body"],
)
def test_the_deadline_is_over_all_of_it(start: bytes) -> None:
    with answering(dripping(start)) as endpoint:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            ask(endpoint, "/", timeout_s=0.3)
        assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    "said",
    [
        b"Content-Length: 10000000000000000000\r\n\r\n",
        b"Content-Length: 1000000000000000\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-5\r\n",
    ],
)
def test_lengths_that_are_none(said: bytes) -> None:
    with answering(of(HEAD + said + b"hi")) as endpoint, pytest.raises(HTTPException, match="cannot be read"):
        ask(endpoint, "/", timeout_s=5)


def test_the_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_request, "MAX_BYTES", 1 << 20)
    long = of(HEAD + b"\r\n" + bytes(2 << 20))
    with answering(long) as endpoint, pytest.raises(OSError, match="an answer of more than 1 MiB"):
        ask(endpoint, "/", timeout_s=30)


def test_a_redirect_is_an_answer_and_nothing_is_unpacked() -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"
    with answering(of(moved)) as endpoint:
        assert ask(endpoint, "/", timeout_s=5) == Reply(302, b"", "http://127.0.0.1:9/")
    packed = gzip.compress(bytes(1 << 20))
    head = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    with answering(of(head + packed)) as endpoint:
        assert ask(endpoint, "/", timeout_s=5) == Reply(200, packed)


def test_a_number_that_is_no_port_s_is_an_error_and_leaves_no_socket() -> None:
    made: list[socket.socket] = []

    def make_socket(family: int, kind: int) -> socket.socket:
        made.append(socket.socket(family, kind))
        return made[-1]

    with pytest.raises(OSError, match="0-65535"):
        ask("127.0.0.1:65536", "/", timeout_s=5, make_socket=make_socket)
    assert [each.fileno() for each in made] == [-1]


def test_each_step_has_the_time_that_those_before_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now, left_s = [0.0], list[float | None]()
    monkeypatch.setattr(http_request, "time", SimpleNamespace(monotonic=lambda: now[0]))

    class Slow(socket.socket):
        def connect(self, address: Any) -> None:
            super().connect(address)
            now[0] += 3

        def sendall(self, data: Any, flags: int = 0) -> None:
            left_s.append(self.gettimeout())
            super().sendall(data, flags)

    class Tls(ssl.SSLContext):
        def wrap_socket(self, sock: socket.socket, *_: Any, **__: Any) -> Any:
            left_s.append(sock.gettimeout())
            now[0] += 1
            return sock

    with answering(of(HEAD + b"\r\nhi")) as endpoint:
        tls = Tls(ssl.PROTOCOL_TLS_CLIENT)
        assert ask(endpoint, "/", timeout_s=5, tls=tls, make_socket=Slow).body == b"hi"
    assert left_s == [2, 1]
