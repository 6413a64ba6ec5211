"""Frames and header blocks: made and read as hyperframe and hpack do, and every legal form of a right answer."""

import os
import socket
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from loadgen.kserve.grpc_call import Form
from loadgen.transport import http2_frames
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


class UnknownFrame(DataFrame):
    """A kind that everybody has to ignore."""

    type = 0x77


@pytest.mark.parametrize("respond", [plain, byte_by_byte, padded, in_pieces, chatty])
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
        http2_frames.frame(http2_frames.PING, http2_frames.ACK, 0, b"12345678")
        == PingFrame(0, b"12345678", flags=["ACK"]).serialize()
    )
    assert http2_frames.window_update(5, 77) == WindowUpdateFrame(5, 77).serialize()
    values = {1: 0, 4: (1 << 31) - 1}
    assert http2_frames.settings(values) == SettingsFrame(0, settings=values).serialize()
    assert http2_frames.read_settings(SettingsFrame(0, settings=values).serialize_body()) == values


@pytest.mark.parametrize("body", [b"\0\5\0\0\0", b"\0\5\0\0\0\1", b"\0\4\xff\xff\xff\xff"])
def test_impossible_settings(body: bytes) -> None:
    with pytest.raises(http2_frames.ProtocolViolation):
        http2_frames.read_settings(body)


def test_a_header_block_is_the_same_for_every_request() -> None:
    from hpack import Decoder

    fields = [(":method", "POST"), (":path", "/a"), ("authorization", "Bearer " + "x" * 3000)]
    block, decoder = http2_frames.encode_fields(fields), Decoder()
    for _ in range(3):
        assert [(str(name), str(value)) for name, value in decoder.decode(block)] == fields
    assert not decoder.header_table.dynamic_entries


def test_decoded_blocks_are_remembered_up_to_a_bound() -> None:
    decoder = http2_frames.FieldDecoder()
    block = http2_frames.encode_fields([("grpc-status", "0")])
    assert decoder.decode(block) is decoder.decode(block)
    for _ in range(3000):
        decoder.decode(http2_frames.encode_fields([("a", os.urandom(8).hex())]))
    assert len(decoder._known) <= 1024


def test_every_header_is_read_by_hpack_whatever_the_server_encodes() -> None:
    encoder = Encoder()
    encoder.header_table_size = 0
    fields = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-message", "ä" * 50)]
    decoder = http2_frames.FieldDecoder()
    for huffman in (True, False):
        assert decoder.decode(bytes(encoder.encode(fields, huffman=huffman))) == dict(fields)
