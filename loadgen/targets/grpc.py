"""A model behind a server over gRPC: KServe v2's calls, or another unary method."""

from collections.abc import Callable, Sequence
from typing import Any

from loadgen.endpoints.control import GrpcEndpointControl
from loadgen.kserve.grpc_call import PREFIX_BYTES, MessageReader, Method, enclose_compressed
from loadgen.kserve.grpc_connection import GrpcConnection, GrpcStream
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


class GrpcTarget(HttpTarget):
    """A server at a URL, over gRPC: a call for each request, or one stream for each connection.

    `reader_class` is what its answers are read with.
    """

    protocol = "grpc"

    def __init__(self, config: LoadConfig, reader_class: type[AnswerReader] = AnswerReader) -> None:
        super().__init__(config)
        self._reader_class = reader_class
        self.config["streaming"] = config.server.streaming
        self.channel_class = in_sequences(GrpcStream if config.server.streaming else GrpcConnection, config, stamp_grpc)
        reader = self._reader = self._make_reader()
        self._answered_by = [self._method(url, reader) for url in self.urls]

    def _make_reader(self) -> MessageReader:
        config = self._config
        return self._reader_class(config.workload.outputs, config.wire_batch, streamed=config.server.streaming)

    def _call(self) -> tuple[str, Sequence[tuple[str, str]]]:
        """Return the path of the method that answers, and metadata that it wants."""
        return STREAM_INFER if self._config.server.streaming else INFER, ()

    def _method(self, url: str, reader: MessageReader) -> Method:
        """Make what calls to the server at a URL share."""
        config = self._config
        path, metadata = self._call()
        compression = {
            "grpc-encoding": config.server.request_compression,
            "grpc-accept-encoding": config.server.response_compression,
        }
        encodings = [(name, given) for name, given in compression.items() if given == GZIP]
        return Method(
            path=path,
            authority=authority(url),
            judge=reader.judge,
            usual_start=reader.usual_start,
            decode=reader.decode,
            error_message=reader.error_message,
            max_bytes=max_message_bytes(config.workload.outputs, config.batch_size),
            scheme="https" if is_secure(url) else "http",
            metadata=(*metadata, *config.access.headers, *encodings),
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
        encode, volume = self._serialising(), self.volume
        if volume is not None and self._config.server.request_compression == GZIP:
            return lambda arrays: enclose_compressed(encode(self.as_served(arrays))[PREFIX_BYTES:], volume)
        if self.decoupled:
            return lambda arrays: asking_for_final(encode(self.as_served(arrays)))
        return lambda arrays: encode(self.as_served(arrays))

    def _serialising(self) -> Callable[[Arrays], bytes]:
        """Make what serialises a batch."""
        config = self._config
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


class GrpcEndpointTarget(GrpcTarget):
    """A server at a URL, asked by the protocol that --endpoint-type names. Raises as `Spoken`."""

    no_statistics = "the endpoint type has no statistics"

    @property
    def control(self) -> GrpcEndpointControl:
        control = super().control
        assert isinstance(control, GrpcEndpointControl)
        return control

    def _make_reader(self) -> MessageReader:
        return self.control.spoken.reader(self.control, self._config)

    def _call(self) -> tuple[str, Sequence[tuple[str, str]]]:
        return self.control.spoken.path, self.control.spoken.metadata

    def _serialising(self) -> Callable[[Arrays], bytes]:
        return self.control.spoken.encoder(self.control, self._config)
