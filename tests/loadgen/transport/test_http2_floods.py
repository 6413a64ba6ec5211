"""Floods and bombs of an HTTP/2 server: each costs its own request, in time and within memory."""

import resource
import struct
from collections.abc import Callable

import pytest

from loadgen.transport.http2_frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
)
from tests.golden.load import constant_ns
from tests.support.grpc_load import GrpcLoad
from tests.support.http2_peer import Peer, answering
from tests.support.raw_server import raw_server

Bytes = Callable[[Peer, int], bytes]
PRIORITY_FRAME, ALTSVC, UNKNOWN = 2, 10, 200
TIMEOUT_S = 0.3
GROWTH_KIB = 64 << 10
WHOLE = END_HEADERS | END_STREAM
INITIAL_WINDOW = struct.pack(">HI", 4, 1 << 16)

FLOODS: dict[str, Bytes] = {
    "SETTINGS": lambda *_: frame(SETTINGS, 0, 0, INITIAL_WINDOW) * 1000,
    "SETTINGS of 10,000 values": lambda *_: frame(SETTINGS, 0, 0, INITIAL_WINDOW * 10_000),
    "SETTINGS that acknowledge": lambda *_: frame(SETTINGS, ACK, 0) * 5000,
    "PING": lambda *_: frame(PING, 0, 0, bytes(8)) * 1000,
    "PING that acknowledge": lambda *_: frame(PING, ACK, 0, bytes(8)) * 5000,
    "RST_STREAM of other streams": lambda *_: frame(RST_STREAM, 0, 9999, bytes(4)) * 5000,
    "RST_STREAM of the connection": lambda *_: frame(RST_STREAM, 0, 0, bytes(4)) * 5000,
    "WINDOW_UPDATE by one": lambda *_: frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 5000,
    "GOAWAY": lambda *_: frame(GOAWAY, 0, 0, b"\x7f\xff\xff\xff" + bytes(1000)) * 50,
    "PRIORITY": lambda _, stream: frame(PRIORITY_FRAME, 0, stream, bytes(5)) * 5000,
    "frames of no known kind": lambda *_: frame(UNKNOWN, 0xFF, 7, bytes(1000)) * 100,
    "ALTSVC of 60 kB": lambda *_: frame(ALTSVC, 0, 0, bytes(60_000)) * 10,
    "empty DATA": lambda _, stream: frame(DATA, 0, stream) * 5000,
    "DATA that is all padding": lambda _, stream: frame(DATA, PADDED, stream, b"\xff" + bytes(255)) * 1000,
    "interim answers": lambda peer, stream: frame(HEADERS, END_HEADERS, stream, peer.fields((":status", "103"))) * 1000,
    "heads": lambda peer, stream: peer.head(stream).serialize() * 1000,
}
BOMBS: dict[str, Bytes] = {
    "60,000 fields from the table": lambda _, stream: frame(HEADERS, WHOLE, stream, b"\x82" * 60_000),
    "12,000 fields": lambda _, stream: frame(HEADERS, WHOLE, stream, b"\0\1a\1b" * 12_000),
    "an index of 60,000 bytes": lambda _, stream: frame(HEADERS, WHOLE, stream, b"\xff" * 60_000 + b"\1"),
    "a length of 60,000 bytes": lambda _, stream: frame(HEADERS, WHOLE, stream, b"\0\x7f" + b"\xff" * 60_000 + b"\1"),
    "a table of 60,000 digits": lambda _, stream: frame(HEADERS, WHOLE, stream, b"\x3f" + b"\xff" * 60_000 + b"\1"),
    "a table that grows": lambda _, stream: frame(HEADERS, WHOLE, stream, b"\x3f\xe1\x1f" * 2000),
    "text that is none": lambda _, stream: frame(HEADERS, WHOLE, stream, b"\0\4\xff\xfe\xfd\xfc\1b"),
    "Huffman code that ends too soon": lambda _, stream: frame(HEADERS, WHOLE, stream, b"\0\1a\xff\x81\xd8\3"),
    "CONTINUATION without an end": lambda _, stream: (
        frame(HEADERS, 0, stream) + frame(CONTINUATION, 0, stream, bytes(12_000)) * 8
    ),
    "RST_STREAM twice": lambda _, stream: frame(RST_STREAM, 0, stream, b"\0\0\0\7") * 2,
    "a window opened by nothing": lambda _, stream: frame(WINDOW_UPDATE, 0, stream, bytes(4)),
    "frames of 16 MiB": lambda *_: frame(SETTINGS, 0, 0, struct.pack(">HI", 5, 1 << 24)),
    "an answer on a stream of the server's": lambda peer, _: frame(HEADERS, WHOLE, 2, peer.fields((":status", "200"))),
    "an answer on the last stream": lambda *_: frame(DATA, END_STREAM, (1 << 31) - 1, b"x"),
    "the reserved bit": lambda peer, stream: frame(HEADERS, WHOLE, stream | 1 << 31, peer.head(stream).data),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_is_a_time_out(flood: Bytes) -> None:
    def respond(peer: Peer, stream: int) -> None:
        pieces = flood(peer, stream)
        while True:
            peer.socket.sendall(pieces)

    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with raw_server(answering(respond)) as (port, _):
        assert GrpcLoad(port, timeout_s=TIMEOUT_S).open(constant_ns(20, 2)).kinds == {"timeout": 2}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < GROWTH_KIB


def test_header_blocks_that_grow_by_nothing_are_a_time_out() -> None:
    def respond(peer: Peer, stream: int) -> None:
        peer.socket.sendall(frame(HEADERS, 0, stream))
        while True:
            peer.socket.sendall(frame(CONTINUATION, 0, stream) * 5000)

    with raw_server(answering(respond)) as (port, _):
        assert GrpcLoad(port, timeout_s=TIMEOUT_S).open(constant_ns(20, 2)).kinds == {"timeout": 2}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_a_failed_request(bomb: Bytes) -> None:
    def respond(peer: Peer, stream: int) -> None:
        peer.socket.sendall(bomb(peer, stream))
        peer.frame()

    with raw_server(answering(respond)) as (port, _):
        load = GrpcLoad(port, timeout_s=5).open([0])
    assert load.kinds == {"malformed_response": 1}
