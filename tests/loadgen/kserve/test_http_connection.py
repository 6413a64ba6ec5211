"""Connections against raw sockets that do what no well-behaved server does."""

import contextlib
import socket
import threading
import time
from dataclasses import replace

import pytest

from loadgen.kserve.http_connection import Response
from loadgen.sut.channel import Payload
from loadgen.transport.http1_head import HEAD_END
from tests.golden.load import Load, constant_ns, payloads
from tests.support.raw_server import raw_server

RIGHT_JSON = (
    b'{"outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[1,64],"data":[' + b",".join([b"0"] * 64) + b"]}]}"
)


def reply(body: bytes = RIGHT_JSON, status: bytes = b"200 OK", extra: bytes = b"", version: bytes = b"1.1") -> bytes:
    return b"HTTP/%s %s\r\n%sContent-Length: %d%s%s" % (version, status, extra, len(body), HEAD_END, body)


def take_request(connection: socket.socket) -> bool:
    """Read one request; False where there is none any more."""
    data = b""
    while len(data) < 10 or b"Content-Length" not in data or HEAD_END not in data:
        if not (got := connection.recv(65536)):
            return False
        data += got
    head, _, body = data.partition(HEAD_END)
    length = int(head.split(b"\r\nContent-Length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return True


@pytest.mark.parametrize(
    "answer",
    [reply(extra=b"Connection: close\r\n"), reply(version=b"1.0"), reply()],
    ids=["announced", "HTTP/1.0", "unannounced"],
)
def test_a_server_that_closes_after_each_answer(answer: bytes) -> None:
    def once(connection: socket.socket) -> None:
        if take_request(connection):
            connection.sendall(answer)

    with raw_server(once) as (port, accepted):
        # far enough apart for the close to be seen before the next request
        load = Load(port).open([0, 1_000_000_000, 2_000_000_000])
        assert (load.kinds, accepted) == ({"ok": 3}, [3])


DEEP = b"[" * 200_000
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WRONG = {
    "another protocol": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "malformed_response"),
    "no chunk": (CHUNKED + b"0\r\n\r\n", "malformed_response"),
    "a part of a chunk": (CHUNKED + b"5\r\nhe", "connection_closed"),
    "a chunk of 256 MiB": (CHUNKED + b"fffffff\r\nhe", "too_large"),
    "a redirect": (b"HTTP/1.1 302 Found\r\nLocation: /v3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "http_302"),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", "http_204"),
    "more than one": (reply() + b"and more", "malformed_response"),
    "no JSON": (reply(b"no JSON"), "malformed_response"),
    "an error": (reply(b'{"error": "full"}', b"503 Service Unavailable"), "http_503"),
    "an error without words": (reply(b"", b"404 Not Found"), "http_404"),
    "a part of a head": (reply()[:40], "connection_closed"),
    "a part of a body": (reply()[:-5], "connection_closed"),
    "nothing": (b"", "connection_closed"),
    "10^19 bytes": (b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000000000000\r\n\r\n{", "malformed_response"),
    "64 GiB": (b"HTTP/1.1 200 OK\r\nContent-Length: 68719476736\r\n\r\n{", "too_large"),
    "a negative size": (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{", "malformed_response"),
    "deep": (reply(DEEP), "malformed_response"),
    "a deep error": (reply(DEEP, b"500 Internal Server Error"), "http_500"),
    "deep objects": (reply(b'{"a":' * 200_000, b"500 Internal Server Error"), "http_500"),
    "a status of 5 digits": (b"HTTP/1.1 12345 Odd\r\nContent-Length: 0\r\n\r\n", "malformed_response"),
    "an endless head": (b"HTTP/1.1 200 OK\r\n" + b"X-Filler: %s\r\n" % (b"x" * 1000) * 70, "malformed_response"),
    "another protocol after it": (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "malformed_response"),
}


@pytest.mark.parametrize(("answer", "kind"), WRONG.values(), ids=WRONG)
def test_an_absurd_answer_is_one_failed_request(answer: bytes, kind: str) -> None:
    def respond(connection: socket.socket) -> None:
        while take_request(connection):
            for piece in filter(None, (answer[:100], answer[100:])):
                connection.sendall(piece)
                time.sleep(0.01)
            if kind == "connection_closed":
                break

    with raw_server(respond) as (port, _):
        load = Load(port).open(constant_ns(50, 3))
    assert load.kinds == {kind: 3}
    assert all(len(outcome.response.message()) < 1000 for outcome in load.outcomes if outcome.response)


def test_a_long_body_is_refused_before_it_is_read() -> None:
    def respond(connection: socket.socket) -> None:
        take_request(connection)
        with contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4000000000\r\n\r\n")
            while True:
                connection.sendall(bytes(1 << 20))
                sent[0] += 1

    sent = [0]
    with raw_server(respond) as (port, _):
        assert Load(port).open([0]).kinds == {"too_large": 1}
    assert sent[0] < 64


IN_CHUNKS = b"".join(
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        *(b"%x;n=1\r\n%s\r\n" % (len(part), part) for part in (RIGHT_JSON[:7], RIGHT_JSON[7:100], RIGHT_JSON[100:])),
        b"0\r\nServer-Timing: model;dur=2\r\n\r\n",
    ]
)


@pytest.mark.parametrize("piece", [1 << 16, 41], ids=["at once", "in many reads"])
def test_an_answer_in_chunks_is_read_and_the_connection_used_again(piece: int) -> None:
    """RFC 9112, section 7.1, with extensions and trailers, in turn with answers that have a length."""

    def respond(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while take_request(connection):
            answer = IN_CHUNKS if answered[0] % 2 == 0 else reply()
            answered[0] += 1
            for at in range(0, len(answer), piece):
                connection.sendall(answer[at : at + piece])

    answered = [0]
    with raw_server(respond) as (port, accepted):
        load = Load(port, max_in_flight=1).open(constant_ns(50, 4))
    assert (load.kinds, accepted) == ({"ok": 4}, [1])
    sizes = {outcome.response.size for outcome in load.outcomes if outcome.response}
    assert sizes == {len(RIGHT_JSON)}


@pytest.mark.parametrize("pause_s", [0, 0.02], ids=["at once", "in pieces"])
def test_interim_answers_are_skipped(pause_s: float) -> None:
    """RFC 9110, section 15.2: a client takes any number of them before the answer itself."""
    parts = [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n", reply()]

    def respond(connection: socket.socket) -> None:
        while take_request(connection):
            for part in parts if pause_s else [b"".join(parts)]:
                connection.sendall(part)
                time.sleep(pause_s)

    with raw_server(respond) as (port, accepted):
        assert Load(port, max_in_flight=1).open(constant_ns(50, 4)).kinds == {"ok": 4}
    assert accepted == [1]


def test_an_answer_before_the_whole_request_was_sent_ends_the_connection() -> None:
    """A connection with the rest of an old request on it would send garbage before the next one."""

    def refuse_early(connection: socket.socket) -> None:
        if connection.recv(1024):
            connection.sendall(reply(b'{"error": "too large"}', b"413 Too Large"))
            stop.wait(5)

    stop = threading.Event()
    huge = iter([Payload(next(payloads()).request + bytes(30 << 20))] * 3)
    cpu = time.process_time()
    with raw_server(refuse_early) as (port, accepted):
        load = Load(port, requests=huge).open(constant_ns(5, 3))
        stop.set()
    assert (load.kinds, accepted) == ({"http_413": 3}, [3])
    assert time.process_time() - cpu < 0.5


def binary(values: bytes = bytes(256), datatype: bytes = b"FP32", length: int = 256) -> bytes:
    """An answer with a binary tensor."""
    header = b'{"outputs":[{"name":"OUTPUT0","datatype":"%s","shape":[1,64],"parameters":{"binary_data_size":%d}}]}' % (
        datatype,
        length,
    )
    return reply(header + values, extra=b"Inference-Header-Content-Length: %d\r\n" % len(header))


@pytest.mark.parametrize("golden_rows", [(0,), ()])
@pytest.mark.parametrize("pieces", [1, 2, 5, 400])
def test_an_answer_after_a_good_one_is_judged_by_itself(pieces: int, golden_rows: tuple[int, ...]) -> None:
    """A connection compares an answer with the last good one; whatever differs is looked at.

    Of an answer to a plain request nobody reads the values, so that it need not hold its own.
    """
    answers = [
        (binary(), "ok"),
        (binary(b"other values".ljust(256)), "ok"),
        (binary(datatype=b"INT8"), "wrong_datatype"),
        (binary(length=255), "wrong_size"),
        (binary(), "ok"),
        (binary().replace(b"OUTPUT0", b"OUTPUT1"), "missing_output"),
        (binary().replace(b"200 OK", b"500 No"), "http_500"),
        (reply(), "ok"),
        (binary(), "ok"),
        (binary().replace(b"HTTP/1.1", b"HTTP/1.0"), "ok"),
    ]
    left = iter(answers)
    together = threading.Lock()

    def answer(connection: socket.socket) -> None:
        with together:
            while take_request(connection):
                whole = next(left)[0]
                size = -(-len(whole) // pieces)
                for first in range(0, len(whole), size):
                    connection.sendall(whole[first : first + size])

    with raw_server(answer) as (port, accepted):
        requests = (replace(payload, golden_rows=golden_rows) for payload in payloads())
        load = Load(port, max_in_flight=1, requests=requests).open([0] * len(answers))
    assert [outcome.error or "ok" for outcome in load.outcomes] == [kind for _, kind in answers]
    assert accepted == [1]
    for outcome, (whole, _) in zip(load.outcomes, answers, strict=True):
        response = outcome.response
        assert isinstance(response, Response)
        body = whole.partition(HEAD_END)[2]
        assert response.size == len(body)
        assert not golden_rows or response.body == body
