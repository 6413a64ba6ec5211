"""A model behind a server over gRPC: KServe v2's calls, or another unary method."""

from collections.abc import Callable, Sequence
from typing import Any

from loadgen.endpoints.control import GrpcEndpointControl, Spoken
from loadgen.kserve.grpc_call import PREFIX_BYTES, MessageReader, Method, enclose_compressed
from loadgen.kserve.grpc_connection import GrpcConnection, GrpcStream
from loadgen.kserve.grpc_control import OverGrpc
from loadgen.kserve.grpc_inference import INFER, STREAM_INFER, AnswerReader, encode_request
from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import PLACE_OF_NUMBER
from loadgen.sut.target import Placement
from loadgen.targets.http import HttpTarget, in_sequences
from loadgen.transport.limits import GZIP, max_message_bytes
from loadgen.transport.server_url import authority, is_secure
from loadgen.variants.decoupled import DecoupledStream, asking_for_final
from loadgen.variants.sequences import stamp_grpc
from servemark.errors import ServerError
from servemark.workload import Arrays


class InferenceCalls:
    """KServe v2's calls, as `Spoken` has other protocols'; their control plane knows by itself what is ready."""

    metadata: Sequence[tuple[str, str]] = ()

    def __init__(self, reader_class: type[AnswerReader], *, streaming: bool) -> None:
        self._reader_class = reader_class
        self.path = STREAM_INFER if streaming else INFER

    def reader(self, _control: OverGrpc, config: LoadConfig) -> MessageReader:
        return self._reader_class(config.workload.outputs, config.wire_batch, streamed=config.server.streaming)

    def encoder(self, _control: OverGrpc, config: LoadConfig) -> Callable[[Arrays], bytes]:
        datatypes = {tensor.name: tensor.datatype for tensor in config.workload.inputs}

        def encode(arrays: Arrays) -> bytes:
            return encode_request(
                config.model,
                arrays,
                config.workload.outputs,
                datatypes,
                version=config.server.model_version,
                parameters=config.server.request_parameters,
                request_id=PLACE_OF_NUMBER if config.live.explain else "",
            )

        return encode


class GrpcTarget(HttpTarget):
    """A server at a URL, over gRPC: a call for each request, or one stream for each connection.

    It is asked by the protocol that --endpoint-type names, and raises as that does, else by KServe v2's calls, whose
    answers are read with `reader_class`.
    """

    protocol = "grpc"

    def __init__(self, config: LoadConfig, reader_class: type[AnswerReader] = AnswerReader) -> None:
        super().__init__(config)
        self.config["streaming"] = config.server.streaming
        self.channel_class = in_sequences(GrpcStream if config.server.streaming else GrpcConnection, config, stamp_grpc)
        assert isinstance(self.control, OverGrpc)
        self._over_grpc = self.control
        self._spoken: Spoken | InferenceCalls = InferenceCalls(reader_class, streaming=config.server.streaming)
        if isinstance(self.control, GrpcEndpointControl):
            self._spoken = self.control.spoken
        reader = self._reader = self._spoken.reader(self._over_grpc, config)
        self._answered_by = [self._method(url, reader) for url in self.urls]

    def _method(self, url: str, reader: MessageReader) -> Method:
        """Make what calls to the server at a URL share."""
        config = self._config
        compression = {
            "grpc-encoding": config.server.request_compression,
            "grpc-accept-encoding": config.server.response_compression,
        }
        encodings = [(name, given) for name, given in compression.items() if given == GZIP]
        return Method(
            path=self._spoken.path,
            authority=authority(url),
            max_bytes=max_message_bytes(config.workload.outputs, config.batch_size),
            reader=reader,
            scheme="https" if is_secure(url) else "http",
            metadata=(*self._spoken.metadata, *config.access.headers, *encodings),
            volume=self._answers,
        )

    def prepare(self) -> Placement:
        placement = super().prepare()
        # Over unary calls the server itself refuses such a model.
        if self._config.server.streaming and self.control.decoupled(self._config.model):
            if self._config.server.shared_memory != "none":
                raise ServerError(
                    f"{self._config.model!r} is decoupled: it may answer a request more than once, all in one place",
                    fix="leave out --shared-memory",
                )
            self.decoupled = True
            self.channel_class = in_sequences(DecoupledStream, self._config, stamp_grpc)
        return placement

    def encoder(self) -> Callable[[Arrays], Any]:
        encode, volume = self._spoken.encoder(self._over_grpc, self._config), self.volume
        if volume is not None and self._config.server.request_compression == GZIP:
            return lambda arrays: enclose_compressed(encode(self.as_served(arrays))[PREFIX_BYTES:], volume)
        if self.decoupled:
            return lambda arrays: asking_for_final(encode(self.as_served(arrays)))
        return lambda arrays: encode(self.as_served(arrays))
