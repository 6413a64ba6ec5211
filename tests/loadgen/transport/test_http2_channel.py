"""HTTP/2: wrong answers are counted as their kind of error; flow control against hyper-h2, and by hand."""

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
from hyperframe.frame import (
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from loadgen.kserve.grpc_call import enclose
from loadgen.kserve.grpc_connection import GrpcConnection
from loadgen.kserve.grpc_inference import encode_request
from loadgen.sut.channel import Payload
from loadgen.transport.http2_channel import Http2Channel
from tests.golden.load import constant_ns, tensor
from tests.support.grpc_load import GrpcLoad
from tests.support.http2_peer import Peer, answer, answering, plain
from tests.support.raw_server import raw_server


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


def resets(code: int) -> Callable[[Peer, int], None]:
    return lambda peer, stream: peer.send(RstStreamFrame(stream, code))


def html(peer: Peer, stream: int) -> None:
    block = peer.fields((":status", "503"), ("content-type", "text/html"))
    head = HeadersFrame(stream, block, flags=["END_HEADERS"])
    peer.send(head, DataFrame(stream, b"<h1>full</h1>", flags=["END_STREAM"]))


def compressed(peer: Peer, stream: int) -> None:
    peer.send(*peer.whole(stream, b"\1" + answer()[1:]))


def twice(peer: Peer, stream: int) -> None:
    peer.send(*peer.whole(stream, answer() * 2))


def without_message(peer: Peer, stream: int) -> None:
    peer.send(peer.head(stream), peer.trailers(stream))


def without_status(peer: Peer, stream: int) -> None:
    peer.send(peer.head(stream), DataFrame(stream, answer(), flags=["END_STREAM"]))


def no_protobuf(peer: Peer, stream: int) -> None:
    peer.send(*peer.whole(stream, enclose(b"\xff\xff\xff")))


def other_stream(peer: Peer, stream: int) -> None:
    peer.send(*peer.whole(stream + 2, answer()))


def dynamic(peer: Peer, stream: int) -> None:
    peer.send(HeadersFrame(stream, b"\xbe", flags=["END_HEADERS", "END_STREAM"]))  # entry 62: not of the static table


def push(peer: Peer, stream: int) -> None:
    peer.send(PushPromiseFrame(stream, 2, peer.fields((":path", "/")), flags=["END_HEADERS"]))


def overflow(peer: Peer, stream: int) -> None:
    peer.send(WindowUpdateFrame(0, (1 << 31) - 1), *peer.whole(stream, answer()))


def interrupted_block(peer: Peer, stream: int) -> None:
    peer.send(HeadersFrame(stream, peer.head(stream).data[:4]), PingFrame(0, b"12345678"))


def cut_short(peer: Peer, stream: int) -> None:
    peer.socket.sendall(b"".join(frame.serialize() for frame in peer.whole(stream, answer()))[:-9])
    peer.socket.shutdown(socket.SHUT_WR)
    while True:  # what is left unread would make the end a reset
        peer.frame()


def refused(peer: Peer, stream: int) -> None:
    peer.send(GoAwayFrame(0, last_stream_id=stream - 1, error_code=11, additional_data=b"too_many_pings"))


@pytest.mark.parametrize(
    ("respond", "kind", "words"),
    [
        (resets(7), "grpc_unavailable", "RST_STREAM 7"),
        (resets(8), "grpc_cancelled", "RST_STREAM 8"),
        (resets(11), "grpc_resource_exhausted", "RST_STREAM 11"),
        (resets(2), "grpc_internal", "RST_STREAM 2"),
        (html, "http_503", "<h1>full</h1>"),
        (compressed, "malformed_response", "not asked for"),
        (twice, "malformed_response", "not one message"),
        (without_message, "malformed_response", "0 bytes"),
        (without_status, "malformed_response", "grpc-status"),
        (no_protobuf, "malformed_response", ""),
        (other_stream, "malformed_response", "stream"),
        (dynamic, "malformed_response", "header block"),
        (push, "malformed_response", "pushed"),
        (overflow, "malformed_response", "window"),
        (interrupted_block, "malformed_response", "header block"),
        (cut_short, "connection_closed", ""),
        (refused, "connection_closed", "too_many_pings"),
    ],
)
def test_wrong_answers(respond: Callable[[Peer, int], None], kind: str, words: str) -> None:
    with raw_server(answering(respond)) as (port, _):
        load = GrpcLoad(port).open(constant_ns(50, 4))
        assert load.kinds == {kind: 4}
        response = load.outcomes[0].response
        assert words in (response.message() if response else load.outcomes[0].message)


def newer(peer: Peer, stream: int) -> None:
    """A right answer with a field that this client does not know, of each fixed size."""
    message = answer()[5:]
    peer.send(*peer.whole(stream, enclose(message + b"\x9d\x3f\xff\xff\xff\xff" + b"\x99\x3f" + b"\xff" * 8)))


def test_fields_of_a_newer_server_are_skipped() -> None:
    with raw_server(answering(newer)) as (port, _):
        assert GrpcLoad(port).open(constant_ns(50, 4)).kinds == {"ok": 4}


def endless_status(peer: Peer, stream: int) -> None:
    block = peer.fields((":status", "200"), ("grpc-status", "1" * 5000))
    peer.send(HeadersFrame(stream, block, flags=["END_HEADERS", "END_STREAM"]))


def absurd_status(peer: Peer, stream: int) -> None:
    peer.send(HeadersFrame(stream, peer.fields((":status", "9" * 30)), flags=["END_HEADERS", "END_STREAM"]))


def odd_values(peer: Peer, stream: int) -> None:
    """A value that its datatype cannot hold."""
    from tritonclient.grpc import service_pb2

    response = service_pb2.ModelInferResponse(model_name="golden")
    response.outputs.add(name="OUTPUT0", datatype="FP32", shape=[1, 64]).contents.bytes_contents.append(b"x")
    peer.send(*peer.whole(stream, enclose(response.SerializeToString())))


def endless(peer: Peer, stream: int) -> None:
    peer.send(peer.head(stream))
    while True:
        peer.send(DataFrame(stream, bytes(1 << 14)))


def padded_endless(peer: Peer, stream: int) -> None:
    peer.send(peer.head(stream))
    while True:
        peer.send(DataFrame(stream, bytes(1 << 14), pad_length=10, flags=["PADDED"]))


def long_head(peer: Peer, stream: int) -> None:
    peer.send(HeadersFrame(stream, peer.fields(("filler", "x" * 70_000)), flags=["END_HEADERS"]))


@pytest.mark.parametrize(
    ("respond", "kind"),
    [
        (endless_status, "grpc_status_other"),
        (absurd_status, "malformed_response"),
        (odd_values, "missing_output"),
        (endless, "too_large"),
        (padded_endless, "too_large"),
        (long_head, "malformed_response"),
    ],
)
def test_an_absurd_answer_is_one_failed_request(respond: Callable[[Peer, int], None], kind: str) -> None:
    with raw_server(answering(respond)) as (port, _):
        assert GrpcLoad(port).open(constant_ns(50, 2)).kinds == {kind: 2}


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
