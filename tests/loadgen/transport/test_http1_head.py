"""Heads of responses."""

import pytest

from loadgen.transport.http1_head import Head, MalformedResponse, parse_head


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
