"""A server over gRPC, in frames made by hand: right about itself, and with the answers that a fault wants."""

import contextlib
import socket
from collections.abc import Callable
from typing import Any

from hpack import Decoder
from hyperframe.frame import HeadersFrame, WindowUpdateFrame

from loadgen.kserve.grpc_call import enclose
from tests.support.http2_peer import Peer, answer
from tests.support.raw_server import RawServer

WINDOW = 1 << 30


class Caller(Peer):
    """A connection whose requests are known by their path."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self._decoder = Decoder()
        self.path = ""

    def frame(self) -> Any:
        """The next one; kept are none."""
        found = super().frame()
        self.frames.clear()
        if isinstance(found, HeadersFrame):
            self.path = dict(self._decoder.decode(found.data, raw=True))[b":path"].decode().rpartition("/")[2]
        return found


class GrpcFront(RawServer):
    """The server, for the length of a `with` block; `infer` sends what it wants for a request, by stream and number."""

    def __init__(
        self, infer: Callable[[Caller, int, int], None], control: Callable[[Caller, int], None] | None = None
    ) -> None:
        self._infer, self._control = infer, control or described
        self.requests = 0

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"grpc://127.0.0.1:{self.port}"

    def received(self) -> int:
        """Whole requests until now."""
        return self.requests

    def _handle(self, connection: socket.socket) -> None:
        caller = Caller(connection)
        with contextlib.suppress(EOFError, OSError):
            caller.greet()
            caller.send(WindowUpdateFrame(0, window_increment=WINDOW))
            while True:
                stream = caller.request()
                caller.bodies.clear()
                if caller.path == "ModelInfer":
                    self.requests += 1
                    self._infer(caller, stream, self.requests)
                else:
                    self._control(caller, stream)


def good(caller: Caller, stream: int) -> None:
    """A right answer."""
    caller.send(*caller.whole(stream, answer()))


def described(caller: Caller, stream: int) -> None:
    """Describe the model; more is not offered."""
    from tritonclient.grpc import service_pb2

    if caller.path == "ModelReady":
        caller.send(*caller.whole(stream, enclose(service_pb2.ModelReadyResponse(ready=True).SerializeToString())))
    elif caller.path == "ModelMetadata":
        found = service_pb2.ModelMetadataResponse(name="golden", platform="raw")
        for tensors, name in ((found.inputs, "INPUT0"), (found.outputs, "OUTPUT0")):
            tensors.add(name=name, datatype="FP32", shape=[-1, 64])
        caller.send(*caller.whole(stream, enclose(found.SerializeToString())))
    else:
        caller.send(caller.head(stream), caller.trailers(stream, 12, "none here"))
