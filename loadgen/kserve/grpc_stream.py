"""One gRPC connection whose requests are the messages of one long call, as Triton's ModelStreamInfer takes them."""

from loadgen.kserve.grpc_call import PREFIX_BYTES
from loadgen.kserve.grpc_connection import GrpcConnection
from loadgen.sut.channel import ConnectionFailed, State
from loadgen.transport.http2_frames import END_STREAM, window_update


class GrpcStream(GrpcConnection):
    """A channel whose requests are the messages of one long call, each answered by one message."""

    __slots__ = ("_ended",)

    def _forget(self) -> None:
        super()._forget()
        self._ended = False

    def start(self) -> None:
        """Send the payload on the stream, which the first one opens."""
        assert self.payload is not None
        self.state = State.BUSY
        self._send_data(self._open_stream() if self._stream < 0 else b"", self.payload.request, 0)

    def cancel(self) -> bool:
        """A reset would end the call of all requests."""
        return False

    def on_unsolicited_data(self) -> bool:
        """Take settings, pings and windows; False once the server has ended the stream or the connection."""
        return super().on_unsolicited_data() and not self._ended

    @property
    def _reusable(self) -> bool:
        return not self._ended and super()._reusable

    def _on_data(self, piece: bytes, flags: int) -> None:
        if piece:  # a server may end the stream with a frame that holds nothing
            self._keep(piece)
        if self._have >= PREFIX_BYTES:
            if len(self._pieces[0]) < PREFIX_BYTES:
                self._pieces = [b"".join(self._pieces)]
            if self._have >= PREFIX_BYTES + int.from_bytes(self._pieces[0][1:PREFIX_BYTES], "big"):
                self._complete(self._message(), None)
        if flags & END_STREAM:
            self._on_end({})

    def _remember(self, data: bytes, body: bytes) -> None:
        """Nothing: an answer on the stream is one frame as it is."""

    def _on_end(self, trailers: dict[str, str]) -> None:
        self._ended = True
        if self.state is not State.BUSY or self._answer is not None:
            return
        if trailers.get("grpc-status") == "0":
            raise ConnectionFailed("connection_closed", "the server ended the stream before the response was complete")
        super()._on_end(trailers)

    def _on_reset(self, code: int) -> None:
        self._ended = True
        if self.state is State.BUSY and self._answer is None:
            super()._on_reset(code)

    def _refill(self) -> None:
        self._unsent.append(window_update(self._stream, self._consumed))
        super()._refill()
