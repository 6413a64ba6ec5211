"""HTTP/2 flow control: windows and frame sizes, against hyper-h2 (which raises on every violation) and by hand."""

import socket
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import numpy as np
import pytest
from hyperframe.frame import DataFrame, PingFrame, SettingsFrame, WindowUpdateFrame

from loadgen.kserve.grpc_connection import GrpcConnection
from loadgen.kserve.grpc_inference import encode_request
from loadgen.sut.channel import Payload
from loadgen.transport.http2_channel import Http2Channel
from tests.golden.load import constant_ns, tensor
from tests.support.grpc_load import GrpcLoad
from tests.support.http2_peer import Peer, answer, answering, plain
from tests.support.raw_server import raw_server


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
