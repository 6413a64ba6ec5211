"""The server's end of an HTTP/2 connection, in frames that are made by hand."""

import functools
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
from hpack import Encoder
from hyperframe.frame import DataFrame, Frame, HeadersFrame, SettingsFrame

from loadgen.kserve.grpc_call import enclose

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@functools.cache
def answer(width: int = 64) -> bytes:
    """A right answer, by tritonclient's messages."""
    from tritonclient.grpc import service_pb2

    response = service_pb2.ModelInferResponse(model_name="golden")
    response.outputs.add(name="OUTPUT0", datatype="FP32", shape=[1, width])
    response.raw_output_contents.append(np.arange(width, dtype="f4").tobytes())
    return enclose(response.SerializeToString())


class Peer:
    """The server's end of one connection, in frames."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.data = b""
        self.encoder = Encoder()
        self.encoder.header_table_size = 0  # as the client wants it
        self.bodies: dict[int, bytes] = {}
        self.frames: list[Frame] = []

    def read(self, count: int) -> bytes:
        while len(self.data) < count:
            got = self.socket.recv(1 << 16)
            if not got:
                raise EOFError
            self.data += got
        found, self.data = self.data[:count], self.data[count:]
        return found

    def greet(self) -> None:
        assert self.read(len(PREFACE)) == PREFACE
        self.send(SettingsFrame(0))

    def frame(self) -> Any:
        found, length = Frame.parse_frame_header(memoryview(self.read(9)))
        found.parse_body(memoryview(self.read(length)))
        self.frames.append(found)
        return found

    def request(self) -> int:
        """Read until a request is complete; its stream."""
        while True:
            found = self.frame()
            if isinstance(found, DataFrame):
                self.bodies[found.stream_id] = self.bodies.get(found.stream_id, b"") + found.data
                if "END_STREAM" in found.flags:
                    return found.stream_id

    def send(self, *frames: Frame) -> None:
        self.socket.sendall(b"".join(frame.serialize() for frame in frames))

    def fields(self, *fields: tuple[str, str]) -> bytes:
        return bytes(self.encoder.encode(fields))

    def head(self, stream: int) -> HeadersFrame:
        block = self.fields((":status", "200"), ("content-type", "application/grpc"))
        return HeadersFrame(stream, block, flags=["END_HEADERS"])

    def trailers(self, stream: int, status: int = 0, message: str = "") -> Frame:
        fields = [("grpc-status", str(status))] + ([("grpc-message", message)] if message else [])
        return HeadersFrame(stream, self.fields(*fields), flags=["END_HEADERS", "END_STREAM"])

    def whole(self, stream: int, body: bytes) -> list[Frame]:
        """A whole good response."""
        return [self.head(stream), DataFrame(stream, body), self.trailers(stream)]


def answering(respond: Callable[[Peer, int], None]) -> Callable[[socket.socket], None]:
    """Return a handler of a connection: a greeting, then `respond` for each request."""

    def handle(connection: socket.socket) -> None:
        peer = Peer(connection)
        try:
            peer.greet()
            while True:
                respond(peer, peer.request())
        except (EOFError, ConnectionError):
            pass

    return handle


def plain(peer: Peer, stream: int) -> None:
    peer.send(*peer.whole(stream, answer()))
