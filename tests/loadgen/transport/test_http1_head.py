"""Heads of responses, and bodies in chunks."""

import pytest

from loadgen.sut.channel import ConnectionFailed
from loadgen.transport.http1_head import Chunks, Head, parse_head
from loadgen.transport.limits import MAX_HEAD_BYTES, MalformedResponse, TooLarge

BODIES = {
    "plain": (b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", b"hello world"),
    "empty": (b"0\r\n\r\n", b""),
    "extensions": (b'5;a=1;b="x; y"\r\nhello\r\n00;last\r\n\r\n', b"hello"),
    "padded": (b"5  \r\nhello\r\n0 \r\n\r\n", b"hello"),
    "trailers": (b"5\r\nhello\r\n0\r\nServer-Timing: db;dur=53\r\nX: y\r\n\r\n", b"hello"),
    "line ends inside": (b"6\r\n\r\n0\r\n\r\r\n0\r\n\r\n", b"\r\n0\r\n\r"),
    "hexadecimal": (b"0A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
}


@pytest.mark.parametrize(
    ("text", "head"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5", Head(200, 5, None, True)),
        (b"HTTP/1.1 200\r\ncontent-length:5\r\nINFERENCE-HEADER-CONTENT-LENGTH:  3 ", Head(200, 5, 3, True)),
        (b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: Close", Head(500, 0, None, False)),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5", Head(200, 5, None, False)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked", Head(200, 0, None, True, chunked=True)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked", Head(200, 0, None, True, chunked=True)),
        (b"HTTP/1.1 204 No Content", Head(204, 0, None, True)),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9", Head(304, 0, None, True)),
        (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /v2", Head(302, 0, None, True, location="/v2")),
    ],
)
def test_response_head(text: bytes, head: Head) -> None:
    assert parse_head(text) == head


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"SSH-2.0-OpenSSH_9.6", "not an HTTP/1 status line"),
        (b"HTTP/2 200 OK\r\nContent-Length: 0", "not an HTTP/1 status line"),
        (b"HTTP/1.1 abc OK", "not an HTTP/1 status line"),
        (b"HTTP/1.1 200 OK\r\nContent-Length 5", "not a header field"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: five", "a length that is not a number"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5", "a length that is not a number"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nInference-Header-Content-Length: x",
            "a length that is not a number",
        ),
        (b"HTTP/1.1 200 OK\r\nServer: x", "neither a Content-Length nor chunks"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked", "the transfer coding b'gzip, chunked'"),
    ],
)
def test_malformed_heads(text: bytes, message: str) -> None:
    with pytest.raises(MalformedResponse, match=message):
        parse_head(text)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(("sent", "body"), BODIES.values(), ids=BODIES)
def test_a_body_however_it_comes(sent: bytes, body: bytes, step: int) -> None:
    chunks = Chunks(100)
    taken = [chunks.take(sent[at : at + step]) for at in range(0, len(sent), step)]
    assert taken == [False] * (len(taken) - 1) + [True]
    assert (chunks.body, chunks.size) == (body, len(body))


@pytest.mark.parametrize(
    ("sent", "raised", "words"),
    [
        (b"five\r\n", MalformedResponse, "not the size of a chunk: b'five'"),
        (b"-5\r\n", MalformedResponse, "not the size of a chunk"),
        (b"\r\n", MalformedResponse, "not the size of a chunk"),
        (b"0x5\r\n", MalformedResponse, "not the size of a chunk"),
        (b"5\r\nhello!\r\n", MalformedResponse, "a chunk that is longer than its size"),
        (b"0\r\n\r\nHTTP/1.1", MalformedResponse, "8 bytes beyond the response's last chunk"),
        (b"1" * (MAX_HEAD_BYTES + 1), MalformedResponse, "a line of more than"),
        (b"0\r\n" + b"X: y\r\n" * MAX_HEAD_BYTES, MalformedResponse, "trailers of more than"),
        (b"ffffffffffffffff\r\n", TooLarge, "the limit is 100"),
        (b"32\r\n" + bytes(50) + b"\r\n33\r\n", TooLarge, "an answer of 101 bytes or more"),
    ],
)
def test_what_is_not_a_body_in_chunks(sent: bytes, raised: type[ConnectionFailed], words: str) -> None:
    with pytest.raises(raised, match=words):
        Chunks(100).take(sent)
