"""Wrong answers over HTTP/2, floods and bombs: each costs its own request, in time and within memory."""

import resource
import socket
import struct
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PushPromiseFrame,
    RstStreamFrame,
    WindowUpdateFrame,
)

from loadgen.kserve.grpc_call import enclose
from loadgen.transport.http2_channel import (
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
from tests.support.http2_peer import Peer, answer, answering, plain
from tests.support.raw_server import raw_server

Frames = Callable[[Peer, int], Sequence[Frame]]
Bytes = Callable[[Peer, int], bytes]
PRIORITY_FRAME, ALTSVC, UNKNOWN = 2, 10, 200
TIMEOUT_S = 0.3
GROWTH_KIB = 64 << 10
WHOLE = END_HEADERS | END_STREAM
INITIAL_WINDOW = struct.pack(">HI", 4, 1 << 16)
HEAD, END = ["END_HEADERS"], ["END_STREAM"]
BOTH = [*HEAD, *END]


def odd_values() -> bytes:
    """An answer with a value that its datatype cannot hold."""
    from tritonclient.grpc import service_pb2

    response = service_pb2.ModelInferResponse(model_name="golden")
    response.outputs.add(name="OUTPUT0", datatype="FP32", shape=[1, 64]).contents.bytes_contents.append(b"x")
    return enclose(response.SerializeToString())


MALFORMED: dict[str, tuple[Frames, str]] = {
    "compressed": (lambda peer, stream: peer.whole(stream, b"\1" + answer()[1:]), "not asked for"),
    "twice": (lambda peer, stream: peer.whole(stream, answer() * 2), "not one message"),
    "no message": (lambda peer, stream: [peer.head(stream), peer.trailers(stream)], "0 bytes"),
    "no status": (lambda peer, stream: [peer.head(stream), DataFrame(stream, answer(), flags=END)], "grpc-status"),
    "no protobuf": (lambda peer, stream: peer.whole(stream, enclose(b"\xff\xff\xff")), ""),
    "another stream": (lambda peer, stream: peer.whole(stream + 2, answer()), "stream"),
    "no such entry": (lambda _, stream: [HeadersFrame(stream, b"\xbe", flags=BOTH)], "header block"),
    "a push": (lambda peer, stream: [PushPromiseFrame(stream, 2, peer.fields((":path", "/")), flags=HEAD)], "pushed"),
    "a window too large": (lambda peer, stream: [WindowUpdateFrame(0, (1 << 31) - 1), peer.head(stream)], "window"),
    "a ping in a header block": (
        lambda peer, stream: [HeadersFrame(stream, peer.head(stream).data[:4]), PingFrame(0, b"12345678")],
        "header block",
    ),
    "a status of 30 digits": (
        lambda peer, stream: [HeadersFrame(stream, peer.fields((":status", "9" * 30)), flags=BOTH)],
        "",
    ),
    "a head of 70 kB": (
        lambda peer, stream: [HeadersFrame(stream, peer.fields(("filler", "x" * 70_000)), flags=HEAD)],
        "",
    ),
}
OTHERS: dict[str, tuple[Frames, str, str]] = {
    "reset 7": (lambda _, stream: [RstStreamFrame(stream, 7)], "grpc_unavailable", "RST_STREAM 7"),
    "reset 8": (lambda _, stream: [RstStreamFrame(stream, 8)], "grpc_cancelled", "RST_STREAM 8"),
    "reset 11": (lambda _, stream: [RstStreamFrame(stream, 11)], "grpc_resource_exhausted", "RST_STREAM 11"),
    "reset 2": (lambda _, stream: [RstStreamFrame(stream, 2)], "grpc_internal", "RST_STREAM 2"),
    "an odd value": (lambda peer, stream: peer.whole(stream, odd_values()), "missing_output", ""),
    "a proxy's page": (
        lambda peer, stream: [
            HeadersFrame(stream, peer.fields((":status", "503"), ("content-type", "text/html")), flags=HEAD),
            DataFrame(stream, b"<h1>full</h1>", flags=END),
        ],
        "http_503",
        "<h1>full</h1>",
    ),
    "a refusal": (
        lambda _, stream: [GoAwayFrame(0, last_stream_id=stream - 1, error_code=11, additional_data=b"too_many_pings")],
        "connection_closed",
        "too_many_pings",
    ),
    "a status of 5,000 digits": (
        lambda peer, stream: [
            HeadersFrame(stream, peer.fields((":status", "200"), ("grpc-status", "1" * 5000)), flags=BOTH)
        ],
        "grpc_status_other",
        "",
    ),
}
ABSURD = {name: (frames, "malformed_response", words) for name, (frames, words) in MALFORMED.items()} | OTHERS


@pytest.mark.parametrize(("frames", "kind", "words"), ABSURD.values(), ids=ABSURD)
def test_an_absurd_answer_is_one_failed_request(frames: Frames, kind: str, words: str) -> None:
    with raw_server(answering(lambda peer, stream: peer.send(*frames(peer, stream)))) as (port, _):
        load = GrpcLoad(port).open(constant_ns(50, 4))
    assert load.kinds == {kind: 4}
    response = load.outcomes[0].response
    assert words in (response.message() if response else load.outcomes[0].message)


def test_an_answer_that_is_cut_short() -> None:
    def respond(peer: Peer, stream: int) -> None:
        peer.socket.sendall(b"".join(frame.serialize() for frame in peer.whole(stream, answer()))[:-9])
        peer.socket.shutdown(socket.SHUT_WR)
        while True:  # what is left unread would make the end a reset
            peer.frame()

    with raw_server(answering(respond)) as (port, _):
        assert GrpcLoad(port).open(constant_ns(50, 4)).kinds == {"connection_closed": 4}


@pytest.mark.parametrize("padding", [{}, {"pad_length": 10, "flags": ["PADDED"]}], ids=["plain", "padded"])
def test_an_answer_without_an_end_is_too_large(padding: dict[str, object]) -> None:
    def respond(peer: Peer, stream: int) -> None:
        peer.send(peer.head(stream))
        while True:
            peer.send(DataFrame(stream, bytes(1 << 14), **padding))

    with raw_server(answering(respond)) as (port, _):
        assert GrpcLoad(port).open(constant_ns(50, 2)).kinds == {"too_large": 2}


@pytest.mark.parametrize(
    ("status", "kind"),
    [(14, "grpc_unavailable"), (4, "grpc_deadline_exceeded"), (1, "grpc_cancelled"), (99, "grpc_status_99")],
)
@pytest.mark.parametrize("with_head", [True, False])
def test_a_status_is_the_kind_of_error(status: int, kind: str, with_head: bool) -> None:
    def respond(peer: Peer, stream: int) -> None:
        if with_head:
            peer.send(peer.head(stream), peer.trailers(stream, status, "na%C3%AFve 100%25"))
        else:
            fields = [(":status", "200"), ("grpc-status", str(status)), ("grpc-message", "na%C3%AFve 100%25")]
            peer.send(HeadersFrame(stream, peer.fields(*fields), flags=["END_HEADERS", "END_STREAM"]))

    with raw_server(answering(respond)) as (port, accepted):
        load = GrpcLoad(port, max_in_flight=1).open(constant_ns(10, 4))
        assert (load.kinds, accepted) == ({kind: 4}, [1])
        assert load.outcomes[0].response is not None
        assert load.outcomes[0].response.message() == "naïve 100%"


def test_data_on_a_stream_that_is_over_ends_the_connection() -> None:
    """Nobody waits for it, and no time-out would ever end it."""

    def respond(peer: Peer, stream: int) -> None:
        plain(peer, stream)
        while True:
            peer.send(DataFrame(stream, bytes(1 << 14)))
            sent.append(stream)

    sent: list[int] = []
    with raw_server(answering(respond)) as (port, accepted):
        # A second request much later: meanwhile the connection is idle.
        load = GrpcLoad(port, max_in_flight=1).open([0, 500_000_000])
    # What comes together with the answer spoils it.
    assert load.kinds.total() == 2
    assert set(load.kinds) <= {"ok", "malformed_response"}
    assert accepted == [2]
    assert len(sent) < 2000


def test_a_flood_of_pings_that_reads_no_answer_ends_the_connection() -> None:
    def respond(peer: Peer, stream: int) -> None:
        plain(peer, stream)
        pings = PingFrame(0, b"12345678").serialize() * 10_000
        while True:
            peer.socket.sendall(pings)
            sent[0] += len(pings)

    sent = [0]
    with raw_server(answering(respond)) as (port, accepted):
        load = GrpcLoad(port, max_in_flight=1).open([0, 6_000_000_000])
    assert load.kinds == {"ok": 2}
    assert accepted == [2]
    # What the two kernels hold, and 16,384 answers.
    assert sent[0] < 64 << 20


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", bytes(64)])
def test_what_is_no_http2_server(greeting: bytes) -> None:
    def handle(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(greeting)

    with raw_server(handle) as (port, _):
        assert GrpcLoad(port).open(constant_ns(50, 3)).kinds == {"malformed_response": 3}


@pytest.mark.parametrize("seed", range(20))
def test_random_garbage_is_counted_not_raised(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def respond(peer: Peer, stream: int) -> None:
        data = bytearray(b"".join(frame.serialize() for frame in peer.whole(stream, answer())))
        for _ in range(3):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        peer.socket.sendall(data)

    with raw_server(answering(respond)) as (port, _):
        load = GrpcLoad(port, timeout_s=0.3).open(constant_ns(100, 8))
        assert load.kinds.total() == 8


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
