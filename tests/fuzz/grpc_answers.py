"""Answers of a server over gRPC: HTTP/2 against h2, messages against tritonclient's."""

import itertools
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import numpy as np
from hpack import Encoder
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from tritonclient.grpc import InferResult, service_pb2

from loadgen.kserve.grpc_call import PREFIX_BYTES, Method, enclose
from loadgen.kserve.grpc_connection import GrpcConnection, GrpcStream
from loadgen.kserve.grpc_inference import AnswerReader
from loadgen.transport import http2_channel as frames
from loadgen.transport.limits import max_message_bytes
from tests.fuzz.damage import damaged
from tests.fuzz.http_answers import OUTPUTS
from tests.fuzz.target import Target
from tests.fuzz.wire import Opens, arrays_of, check_conversation, converse

REQUEST = enclose(b"\x0a\x01m")
SETTINGS = frames.settings({})
PLAIN = [(":status", "200"), ("content-type", "application/grpc")]
OK = [("grpc-status", "0")]
TYPED = {"FP32": "fp32_contents", "INT64": "int64_contents"}


def message(length: int = 2) -> Any:
    """A right answer, by tritonclient's messages."""
    found = service_pb2.ModelInferResponse(model_name="m")
    found.outputs.add(name="A", datatype="FP32", shape=[1, 3])
    found.outputs.add(name="B", datatype="INT64", shape=[1, length])
    found.raw_output_contents.append(np.array([1, -0.0, 2.5], "f4").tobytes())
    found.raw_output_contents.append(np.arange(length, dtype="i8").tobytes())
    return found


def typed() -> Any:
    """A right answer whose values are fields of their own."""
    found = message()
    del found.raw_output_contents[:]
    found.outputs[0].contents.fp32_contents.extend([1, -0.0, 2.5])
    found.outputs[1].contents.int64_contents.extend([0, 1])
    return found


def field(number: int, wire_type: int, content: bytes) -> bytes:
    """A protobuf field as it travels."""
    tag = number << 3 | wire_type
    return bytes([tag] if tag < 128 else [tag & 127 | 128, tag >> 7]) + content


NEWER = st.sampled_from(
    (
        field(9, 0, b"\x05"), field(9, 0, b"\xff" * 9 + b"\x01"), field(9, 1, b"\xff" * 8), field(9, 5, b"\xff" * 4),
        field(9, 2, b"\x03abc"), field(99, 5, b"\xff" * 4), field(99, 1, b"\xff" * 8), field(6, 2, b"\x00"),
        field(5, 2, b"\x00"), field(9, 3, field(9, 4, b"")), field(2, 2, b"\x00"), b"\xb0\x00\x05",
    )
)  # fmt: skip
"""Fields that a newer server may add, of every wire type, and more of those that there are."""
PROTO_WORDS = (b"\xff\xff\xff\xff\x0f", b"\x80" * 10, b"\x32\x00", b"\x2a\x00", field(99, 5, b"\xff" * 4))


@st.composite
def messages(draw: DrawFn) -> bytes:
    """Serialised answers, most of them right but for unknown fields; some with odd contents."""
    found = draw(st.sampled_from((message, message, typed)))()
    for output in found.outputs:
        change = draw(st.integers(0, 12))
        if change == 0:
            output.shape[:] = draw(st.lists(st.sampled_from((-1, 0, 1, 3, 1 << 31, (1 << 63) - 1)), max_size=4))
        elif change == 1:
            output.name = draw(st.sampled_from(("A", "B", "C", "")))
        elif change == 2:
            output.datatype = draw(st.sampled_from(("FP32", "INT64", "BYTES", "")))
        elif change == 3:
            output.contents.fp64_contents.extend(draw(st.lists(st.floats(), max_size=3)))
        elif change == 4:
            output.contents.uint64_contents.extend([1 << 63, 2])
    data: bytes = found.SerializeToString()
    return data + b"".join(draw(st.lists(NEWER, max_size=2)))


def streamed(data: bytes) -> bytes:
    """An answer as the message of a stream."""
    return field(2, 2, _varint(len(data)) + data)


def _varint(number: int) -> bytes:
    done = b""
    while number >= 128:
        done += bytes([number & 127 | 128])
        number >>= 7
    return done + bytes([number])


def read_message(data: bytes) -> None:
    """One answer, by a reader that has seen nothing, and by those that have seen right ones of that length."""
    for in_stream in (False, True):
        serialised = streamed(data) if in_stream else data
        enclosed = enclose(serialised)
        reader = AnswerReader(OUTPUTS, 1, streamed=in_stream)
        error = reader.judge(enclosed)
        assert isinstance(reader.error_message(enclosed), str)
        assert reader.judge(enclosed) == error, "judged otherwise the second time"
        if error is None:
            ours = reader.decode(enclosed, OUTPUTS)
            for tensor in OUTPUTS:
                assert tensor.fits(ours[tensor.name].shape[1:])
            if not in_stream:
                _same_as_tritonclient(data, ours)
        # A reader that knows other answers as long as this one may not take it for one of them.
        for right in (message(), message(7), typed()):
            known = right.SerializeToString()
            if len(known) != len(data):
                continue
            primed = AnswerReader(OUTPUTS, 1, streamed=in_stream)
            assert primed.judge(enclose(streamed(known) if in_stream else known)) is None
            assert primed.judge(enclosed) == error, "judged otherwise after a right answer"


def _same_as_tritonclient(data: bytes, ours: Any) -> None:
    """Raw contents as tritonclient reads them; it leaves typed ones to the caller."""
    found = service_pb2.ModelInferResponse.FromString(data)
    theirs = InferResult(found)
    for tensor in OUTPUTS:
        if found.raw_output_contents:
            array = theirs.as_numpy(tensor.name)
        else:
            contents = theirs.get_output(tensor.name).contents
            array = np.array(getattr(contents, TYPED[tensor.datatype]), tensor.dtype).reshape(ours[tensor.name].shape)
        assert np.array_equal(array, ours[tensor.name], equal_nan=True)


def block(fields: list[tuple[str, str]]) -> bytes:
    """A header block, as the client wants it: no dynamic table."""
    encoder = Encoder()
    encoder.header_table_size = 0
    return bytes(encoder.encode(fields))


def exchange(stream: int, body: bytes, trailers: list[tuple[str, str]] | None = None, most: int = 1 << 14) -> bytes:
    """A whole answer on a stream; DATA in frames of at most so many bytes."""
    parts = [body[first : first + most] for first in range(0, len(body), most)] or [b""]
    return (
        frames.frame(frames.HEADERS, frames.END_HEADERS, stream, block(PLAIN))
        + b"".join(frames.frame(frames.DATA, 0, stream, part) for part in parts)
        + frames.frame(
            frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, stream, block(OK if trailers is None else trailers)
        )
    )


STATUSES = st.sampled_from(("0", "0", "0", "5", "14", "16", "99", "1" * 5000, "-1", "\u0661", "evil,0", ""))
FIELDS = st.lists(
    st.tuples(
        st.sampled_from((":status", "grpc-status", "grpc-message", "content-type", "x", "X", "")),
        st.one_of(STATUSES, st.sampled_from(("200", "404", "%ff%00", "a" * 9000, "application/grpc"))),
    ),
    max_size=4,
)
ODD_FRAMES = st.builds(
    frames.frame,
    st.sampled_from((*range(11), 250)),
    st.sampled_from((0, 1, 4, 5, 8, 9, 12, 13, 0x20, 0x25, 0x2D, 255)),
    st.sampled_from((0, 1, 1, 2, 3, (1 << 31) - 1, 1 << 31)),
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from((bytes(4), b"\xff" * 4, b"\x7f" + b"\xff" * 3, bytes(8))),
        st.sampled_from((b"\0\4\x7f\xff\xff\xff", b"\0\5\0\0\0\1")),
        st.sampled_from((b"\xff" * 3000, b"\x01" * 65535, bytes(70_000), b"\x82" * 60_000, b"\x1f" + b"\xff" * 64)),
        FIELDS.map(block),
    ),
)  # fmt: skip
PING = frames.frame(frames.PING, 0, 0, bytes(8))


@st.composite
def conversations(draw: DrawFn, bodies: SearchStrategy[bytes]) -> bytes:
    """Draw a server's bytes on one connection: settings, up to three answers on the streams 1, 3, 5, and between."""
    said = draw(st.sampled_from((SETTINGS, SETTINGS, frames.settings({4: 0, 5: 1 << 14}), b"")))
    for stream in itertools.islice((1, 3, 5), draw(st.integers(1, 3))):
        for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
            said += draw(st.one_of(ODD_FRAMES, st.just(PING), st.just(frames.window_update(0, 1 << 16))))
        body = draw(bodies)
        trailers = draw(st.one_of(st.none(), st.none(), FIELDS, STATUSES.map(lambda status: [("grpc-status", status)])))
        said += exchange(stream, body, trailers, draw(st.sampled_from((1 << 14, 20, 5))))
    return said


ENCLOSED = messages().map(enclose)
WORDS = (
    PING,
    SETTINGS,
    frames.frame(frames.GOAWAY, 0, 0, bytes(8)),
    frames.frame(frames.RST_STREAM, 0, 1, b"\0\0\0\7"),
)


def method(*, in_stream: bool = False) -> Method:
    """A method with a reader that has seen nothing."""
    reader = AnswerReader(OUTPUTS, 1, streamed=in_stream)
    limit = max_message_bytes(OUTPUTS, 1)
    return Method("/s/m", "h", limit, reader)


def read_connection(data: bytes) -> None:
    """Unary calls; also on a connection whose first answer was right, which makes short cuts of what comes next."""
    opens: Opens = lambda address: GrpcConnection(address, fresh)  # noqa: E731
    fresh = method()
    check_conversation(opens, REQUEST, OUTPUTS, data)
    answered = _h2(data)
    if answered is not None:
        end, body = answered
        [ours, *_] = converse(opens, REQUEST, [data[:end]])
        assert ours.kind == "too_large" or ours.answer is not None, f"h2 reads a message of {len(body)} bytes"
        assert ours.answer is None or ours.answer.size == len(body)
    primed = method()
    primer = SETTINGS + exchange(1, enclose(message().SerializeToString()))
    rest = data.removeprefix(SETTINGS).replace(b"\0\0\0\3", b"\0\0\0\5").replace(b"\0\0\0\1", b"\0\0\0\3")
    later = converse(lambda address: GrpcConnection(address, primed), REQUEST, [primer, rest])
    assert later[0].kind is None
    for kind, answer in later:
        if kind is None and answer is not None:
            arrays_of(answer, OUTPUTS)


def read_stream(data: bytes) -> None:
    """Messages of one long call."""
    fresh = method(in_stream=True)
    check_conversation(lambda address: GrpcStream(address, fresh), REQUEST, OUTPUTS, data)


@st.composite
def streams(draw: DrawFn) -> bytes:
    """Draw a server's bytes on a stream: messages in DATA frames, and between."""
    said = SETTINGS + frames.frame(frames.HEADERS, frames.END_HEADERS, 1, block(PLAIN))
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.integers(0, 3)) == 0:
            said += draw(ODD_FRAMES)
        body = enclose(streamed(draw(messages())))
        size = draw(st.sampled_from((1 << 14, 20, 5)))
        for first in range(0, len(body), size):
            said += frames.frame(frames.DATA, 0, 1, body[first : first + size])
    if draw(st.booleans()):
        said += frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, block(draw(FIELDS)))
    return said


def _h2(data: bytes) -> tuple[int, bytes] | None:
    """Return the end of a first stream with grpc-status 0 and its one message, as h2 reads it; None for others."""
    if data[3:4] != bytes([frames.SETTINGS]):
        return None  # h2 takes this
    peer = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    limits: Any = {1: 0, 2: 0, 4: (1 << 31) - 1, 5: 1 << 20}
    peer.local_settings = type(peer.local_settings)(client=True, initial_values=limits)
    peer.initiate_connection()
    peer.send_headers(1, [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "h")])
    peer.send_data(1, REQUEST, end_stream=True)
    body, status, position = b"", None, 0
    try:
        while position + frames.HEAD_BYTES <= len(data):
            end = position + frames.HEAD_BYTES + int.from_bytes(data[position : position + 3], "big")
            for event in peer.receive_data(data[position:end]):
                if isinstance(event, h2.events.DataReceived) and event.stream_id == 1:
                    body += event.data
                elif isinstance(event, h2.events.TrailersReceived | h2.events.ResponseReceived):
                    status = dict(event.headers).get(b"grpc-status") if event.stream_id == 1 else status
                elif isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
                    return None
                elif isinstance(event, h2.events.StreamEnded) and event.stream_id == 1:
                    whole = len(body) >= PREFIX_BYTES and body[:1] == b"\0"
                    whole = whole and int.from_bytes(body[1:PREFIX_BYTES], "big") == len(body) - PREFIX_BYTES
                    return (end, body) if status == b"0" and whole else None
            position = end
    except (h2.exceptions.ProtocolError, ValueError, KeyError):
        return None
    return None


TARGETS = (
    Target("grpc_message", damaged(messages(), PROTO_WORDS), read_message, examples=200),
    Target("grpc_connection", damaged(conversations(ENCLOSED), WORDS), read_connection, examples=120),
    Target("grpc_stream", damaged(streams(), WORDS), read_stream, examples=100),
)
