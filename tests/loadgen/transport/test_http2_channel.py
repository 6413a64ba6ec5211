"""HTTP/2: frames and header blocks as hyperframe and hpack make them, every legal form of a right answer, flow control.

Flow control is tried against hyper-h2, and by hand.
"""

import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import numpy as np
import pytest
from hpack import Decoder, Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from loadgen.kserve.grpc_call import FieldDecoder, Form, enclose, encode_fields
from loadgen.kserve.grpc_connection import GrpcConnection
from loadgen.kserve.grpc_inference import encode_request
from loadgen.sut.channel import Payload
from loadgen.transport import http2_channel
from loadgen.transport.http2_channel import Http2Channel
from loadgen.transport.limits import MalformedResponse
from tests.golden.load import constant_ns, tensor
from tests.support.grpc_load import GrpcLoad
from tests.support.http2_peer import Peer, answer, answering, plain
from tests.support.raw_server import raw_server


def byte_by_byte(peer: Peer, stream: int) -> None:
    for byte in b"".join(frame.serialize() for frame in peer.whole(stream, answer())):
        peer.socket.sendall(bytes([byte]))


def padded(peer: Peer, stream: int) -> None:
    block = peer.head(stream).data
    head = HeadersFrame(stream, block, pad_length=7, flags=["END_HEADERS", "PADDED", "PRIORITY"])
    peer.send(head, DataFrame(stream, answer(), pad_length=100, flags=["PADDED"]), peer.trailers(stream))


def in_pieces(peer: Peer, stream: int) -> None:
    body, block = answer(), peer.head(stream).data
    peer.send(HeadersFrame(stream, block[:5]), ContinuationFrame(stream, block[5:9]))
    peer.send(ContinuationFrame(stream, block[9:], flags=["END_HEADERS"]))
    peer.send(*(DataFrame(stream, body[at : at + 100]) for at in range(0, len(body), 100)), DataFrame(stream, b""))
    peer.send(peer.trailers(stream))


def chatty(peer: Peer, stream: int) -> None:
    settings = SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 1000 + stream})
    peer.send(PingFrame(0, b"12345678"), peer.head(stream), settings, WindowUpdateFrame(0, 500))
    peer.send(
        DataFrame(stream, answer()), WindowUpdateFrame(stream, 9), UnknownFrame(stream + 4, b"?"), peer.trailers(stream)
    )
    peer.send(PingFrame(0, b"idle....", flags=["ACK"]), PingFrame(0, b"idle...."))


def newer(peer: Peer, stream: int) -> None:
    """A field that this client does not know, of each fixed size."""
    fields = b"\x9d\x3f\xff\xff\xff\xff" + b"\x99\x3f" + b"\xff" * 8
    peer.send(*peer.whole(stream, enclose(answer()[5:] + fields)))


class UnknownFrame(DataFrame):
    """A kind that everybody has to ignore."""

    type = 0x77


@pytest.mark.parametrize("respond", [plain, byte_by_byte, padded, in_pieces, chatty, newer])
def test_right_answers_in_every_form(respond: Callable[[Peer, int], None]) -> None:
    with raw_server(answering(respond)) as (port, accepted):
        load = GrpcLoad(port).open(constant_ns(100, 12))
        assert load.kinds == {"ok": 12}
        assert load.outcomes[0].response is not None
        np.testing.assert_array_equal(
            load.outcomes[0].response.arrays([tensor(64)])["OUTPUT0"], np.arange(64, dtype="f4")[None]
        )
    assert accepted[0] <= 12
    assert all(o.scheduled <= o.sent <= o.done for o in load.outcomes)


def test_pings_and_settings_are_answered_also_while_nothing_is_asked() -> None:
    seen: list[Frame] = []
    answered = threading.Event()

    def handle(connection: socket.socket) -> None:
        peer = Peer(connection)
        peer.frames = seen
        peer.greet()
        plain(peer, peer.request())
        peer.send(PingFrame(0, b"12345678"), SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 1000}))
        while len([f for f in seen if isinstance(f, SettingsFrame) and "ACK" in f.flags]) < 2:
            peer.frame()
        answered.set()
        plain(peer, peer.request())  # on the same connection

    with raw_server(handle) as (port, accepted):
        load = GrpcLoad(port, max_in_flight=1).open([0, 300_000_000])
        assert (load.kinds, accepted) == ({"ok": 2}, [1])
    assert answered.is_set()
    assert [f.opaque_data for f in seen if isinstance(f, PingFrame)] == [b"12345678"]


@pytest.mark.parametrize("window", [0, 300])
@pytest.mark.parametrize("known", [0, 9])
def test_a_response_of_a_known_form_is_one_only_where_all_but_its_contents_is_the_same(window: int, known: int) -> None:
    peer = Peer(socket.socket())
    peer.socket.close()
    peer.fields(("the", "first block"))  # which also changes the size of the table

    def whole(stream: int, body: bytes) -> bytes:
        frames = [*peer.whole(stream, body), *([WindowUpdateFrame(0, window)] if window else [])]
        return b"".join(frame.serialize() for frame in frames)

    data, start = whole(7, answer()), answer()[:known]
    form = Form.of(data, 7, start)
    assert form is not None
    assert (form.window, data[form.first : form.last]) == (window, answer())
    assert Form.of(data, 9, start) is None
    assert Form.of(data + PingFrame(0, b"12345678").serialize(), 7, start) is None
    assert Form.of(data[:-1], 7, start) is None
    other = start + bytes(len(answer()) - known)
    assert form.fits(whole(0x01020304, other), (0x01020304).to_bytes(4, "big"))
    for position in {*range(len(data))} - {*range(form.first + known, form.last)}:
        changed = bytearray(data)
        changed[position] ^= 1
        assert not form.fits(bytes(changed), (7).to_bytes(4, "big")), position


def test_frames_equal_hyperframes() -> None:
    assert (
        http2_channel.frame(http2_channel.PING, http2_channel.ACK, 0, b"12345678")
        == PingFrame(0, b"12345678", flags=["ACK"]).serialize()
    )
    assert http2_channel.window_update(5, 77) == WindowUpdateFrame(5, 77).serialize()
    values = {1: 0, 4: (1 << 31) - 1}
    assert http2_channel.settings(values) == SettingsFrame(0, settings=values).serialize()
    assert http2_channel.read_settings(SettingsFrame(0, settings=values).serialize_body()) == values


@pytest.mark.parametrize("body", [b"\0\5\0\0\0", b"\0\5\0\0\0\1", b"\0\4\xff\xff\xff\xff"])
def test_impossible_settings(body: bytes) -> None:
    with pytest.raises(MalformedResponse):
        http2_channel.read_settings(body)


def test_a_header_block_is_the_same_for_every_request() -> None:
    fields = [(":method", "POST"), (":path", "/a"), ("authorization", "Bearer " + "x" * 3000)]
    block, decoder = encode_fields(fields), Decoder()
    for _ in range(3):
        assert [(str(name), str(value)) for name, value in decoder.decode(block)] == fields
    assert not decoder.header_table.dynamic_entries


def test_decoded_blocks_are_remembered_up_to_a_bound() -> None:
    decoder = FieldDecoder()
    block = encode_fields([("grpc-status", "0")])
    assert decoder.decode(block) is decoder.decode(block)
    for _ in range(3000):
        decoder.decode(encode_fields([("a", os.urandom(8).hex())]))
    assert len(decoder._known) <= 1024


def test_every_header_is_read_by_hpack_whatever_the_server_encodes() -> None:
    encoder = Encoder()
    encoder.header_table_size = 0
    fields = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-message", "ä" * 50)]
    decoder = FieldDecoder()
    for huffman in (True, False):
        assert decoder.decode(bytes(encoder.encode(fields, huffman=huffman))) == dict(fields)


def test_a_connection_that_the_server_wants_to_end_is_replaced() -> None:
    def respond(peer: Peer, stream: int) -> None:
        if stream == 3:
            peer.send(GoAwayFrame(0, last_stream_id=(1 << 31) - 1), *peer.whole(stream, answer()))
            raise EOFError
        plain(peer, stream)

    with raw_server(answering(respond)) as (port, accepted):
        assert GrpcLoad(port, max_in_flight=1).open(constant_ns(20, 8)).kinds == {"ok": 8}
        assert accepted == [4]


def test_an_answer_before_the_whole_request_is_out_ends_the_connection() -> None:
    def refuse_early(connection: socket.socket) -> None:
        peer = Peer(connection)
        peer.greet()
        while not isinstance(found := peer.frame(), DataFrame):
            pass
        peer.send(peer.head(found.stream_id), peer.trailers(found.stream_id, 8, "too large"))
        done.wait(5)

    done = threading.Event()
    with raw_server(refuse_early) as (port, accepted):
        load = GrpcLoad(port, width=8 << 20, distinct=1).open(constant_ns(5, 3))
        done.set()
    assert (load.kinds, accepted) == ({"grpc_resource_exhausted": 3}, [3])


def request(width: int) -> bytes:
    return encode_request("golden", {"INPUT0": np.arange(width, dtype="f4")[None]}, [tensor(width)], {"INPUT0": "FP32"})


class StrictServer:
    """hyper-h2 in the server's part: it raises where the client breaks a window, a frame size or a state."""

    def __init__(self, initial_window: int, max_frame: int, body: bytes, *, seed: int = 0) -> None:
        self.initial_window, self.max_frame, self.body = initial_window, max_frame, body
        self.rng = np.random.default_rng(seed)
        self.received: list[bytes] = []
        self.errors: list[str] = []

    def __call__(self, connection: socket.socket) -> None:
        h2_connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        h2_connection.initiate_connection()
        # They hold once the client has acknowledged them.
        codes = h2.settings.SettingCodes
        h2_connection.update_settings(
            {codes.INITIAL_WINDOW_SIZE: self.initial_window, codes.MAX_FRAME_SIZE: self.max_frame}
        )
        connection.sendall(h2_connection.data_to_send())
        bodies: dict[int, bytearray] = {}
        acknowledged = 0
        try:
            while data := connection.recv(1 << 16):
                while data:
                    # hyper-h2 applies an acknowledged frame size only to what it is given afterwards.
                    piece, data = (data, b"") if acknowledged == 2 else (data[:9], data[9:])
                    for event in h2_connection.receive_data(piece):
                        acknowledged += isinstance(event, h2.events.SettingsAcknowledged)
                        self.take(h2_connection, event, bodies)
                connection.sendall(h2_connection.data_to_send())
        except ConnectionError:
            pass
        except Exception as error:
            self.errors.append(repr(error))

    def take(self, connection: Any, event: Any, bodies: dict[int, bytearray]) -> None:
        if isinstance(event, h2.events.RequestReceived):
            bodies[event.stream_id] = bytearray()
        elif isinstance(event, h2.events.DataReceived):
            bodies[event.stream_id] += event.data
            # The window comes back in small change.
            left = event.flow_controlled_length
            while left:
                count = int(self.rng.integers(1, left + 1))
                connection.acknowledge_received_data(count, event.stream_id)
                left -= count
        elif isinstance(event, h2.events.StreamEnded):
            self.received.append(bytes(bodies.pop(event.stream_id)))
            fields = [(":status", "200"), ("content-type", "application/grpc")]
            connection.send_headers(event.stream_id, fields)
            size = connection.max_outbound_frame_size
            for at in range(0, len(self.body), size):
                connection.send_data(event.stream_id, self.body[at : at + size])
            connection.send_headers(event.stream_id, [("grpc-status", "0")], end_stream=True)


@pytest.mark.parametrize(
    ("width", "initial_window", "max_frame"),
    [(64, 65535, 16384), (64, 10, 16384), (150_000, 65535, 16384), (150_000, 1000, 16384), (150_000, 5 << 20, 1 << 20)],
)
def test_windows_and_frame_sizes_are_kept(width: int, initial_window: int, max_frame: int) -> None:
    server = StrictServer(initial_window, max_frame, answer(width))
    sent = request(width)
    with raw_server(server) as (port, accepted):
        load = GrpcLoad(port, width=width, requests=iter([Payload(sent)] * 6)).open(constant_ns(50, 6))
    assert server.errors == []
    assert load.kinds == {"ok": 6}
    assert accepted[0] <= 6
    assert server.received == [sent] * 6


def test_settings_that_shrink_a_window_below_what_is_on_its_way() -> None:
    """The window becomes negative; nothing may be sent until the server has opened it again (RFC 9113, 6.9.2)."""
    body = request(50_000)
    sizes: list[int] = []

    def handle(connection: socket.socket) -> None:
        peer = Peer(connection)
        peer.greet()
        while sum(sizes) < 65535:  # the initial window
            if isinstance(found := peer.frame(), DataFrame):
                sizes.append(len(found.data))
        stream = found.stream_id
        peer.send(SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 0}), WindowUpdateFrame(0, 1 << 20))
        while not (isinstance(found := peer.frame(), SettingsFrame) and "ACK" in found.flags):
            assert not isinstance(found, DataFrame)
        peer.send(WindowUpdateFrame(stream, 65535), PingFrame(0, b"12345678"))
        while not isinstance(found := peer.frame(), PingFrame):  # the window is at 0: still nothing
            assert not isinstance(found, DataFrame)
        peer.send(WindowUpdateFrame(stream, 1 << 20))
        while "END_STREAM" not in found.flags:
            if isinstance(found := peer.frame(), DataFrame):
                sizes.append(len(found.data))
        peer.send(*peer.whole(stream, answer(50_000)))

    with raw_server(handle) as (port, _):
        assert GrpcLoad(port, width=50_000, requests=iter([Payload(body)])).open([0]).kinds == {"ok": 1}
    assert sum(sizes) == len(body)


def test_our_own_window_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Http2Channel, "REFILL_BYTES", 10_000)
    updates: list[int] = []

    def respond(peer: Peer, stream: int) -> None:
        plain(peer, stream)
        updates.extend(
            f.window_increment for f in peer.frames if isinstance(f, WindowUpdateFrame) and f.window_increment < 1 << 30
        )
        peer.frames.clear()

    with raw_server(answering(respond)) as (port, _):
        assert GrpcLoad(port, max_in_flight=1).open(constant_ns(200, 101)).kinds == {"ok": 101}
    size = len(answer())
    assert updates
    assert sum(updates) <= 101 * size
    assert all(10_000 <= update < 10_000 + size for update in updates)


def test_leave_to_send_more_behind_each_response_is_taken_and_the_response_is_still_a_known_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Triton does it. Without these leaves the connection's window would be used up by half of the requests."""
    count, read, take = 600, list[int](), GrpcConnection._take

    def counting(self: GrpcConnection, data: bytes) -> None:
        read.append(len(data))
        take(self, data)

    monkeypatch.setattr(GrpcConnection, "_take", counting)
    body = request(64)
    assert count * len(body) > 2 * 65535

    def respond(peer: Peer, stream: int) -> None:
        peer.send(*peer.whole(stream, answer()), WindowUpdateFrame(0, len(body)))

    with raw_server(answering(respond)) as (port, accepted):
        load = GrpcLoad(port, max_in_flight=1, timeout_s=120).open([0] * count)
    assert (load.kinds, accepted) == ({"ok": count}, [1])
    assert len(read) < count / 10  # the others were compared with a known one, not read frame by frame
