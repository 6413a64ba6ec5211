"""A model behind a KServe v2 server."""

import ipaddress
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from loadgen.kserve.grpc_inference import AnswerReader
from loadgen.kserve.http_connection import Connection
from loadgen.kserve.http_messages import BINARY, Asked, Formats, ResponseChecker, encode_request
from loadgen.kserve.server_statistics import COMPOSING
from loadgen.load.load_config import LoadConfig
from loadgen.stateful.sequences import Sequences, Stamp, carrying, reserved_http, stamp_http
from loadgen.sut.channel import Channel, Payload
from loadgen.sut.numbered import PLACE_OF_NUMBER
from loadgen.sut.target import Placement
from loadgen.targets.control import control_of
from loadgen.targets.engine_info import read_placement
from loadgen.targets.payloads import payloads
from loadgen.transport.tcp import Address
from servemark.documents.load import AUTO
from servemark.machine.addresses import listeners
from servemark.repository.entry import Golden
from servemark.results.schema.run import Resolved
from servemark.workload import Arrays, Tensor


class HttpTarget:
    """A server at a URL, over HTTP; `checker` is what its answers are checked with."""

    protocol = "http"
    shared_memory = "none"
    decoupled = False
    no_statistics = "the server gives no Triton statistics"

    def __init__(
        self, config: LoadConfig, checker: Callable[[Sequence[Tensor], int], ResponseChecker] = ResponseChecker
    ) -> None:
        self.url: str = config.url
        self.config: Resolved = {
            **config.resolved(),
            "tls": config.access.tls(config.url),
            "headers": [name for name, _ in config.access.headers] or None,
        }
        self.control = control_of(config)
        self._config = config
        self._reader: ResponseChecker | AnswerReader = checker(config.workload.outputs, config.wire_batch)
        self._answered_by: Any = self._reader
        self._channel: Any = in_sequences(Connection, config, stamp_http)
        self._address: Address | None = None
        self._formats = BINARY
        self._composing = dict(config.server.bls_composing_models)
        """The models of a pipeline, whose statistics are read too, with their versions."""

    @property
    def address(self) -> Address:
        """Return the server's address, resolved once. Raises ServerError."""
        if self._address is None:
            self._address = self._config.access.address(self.url)
        return self._address

    @property
    def local(self) -> bool:
        return ipaddress.ip_address(self.address.sockaddr[0]).is_loopback

    def processes(self) -> list[int]:
        host, port = self.address.sockaddr[:2]
        return listeners(str(host), int(port))

    def prepare(self) -> Placement:
        config = self._config
        self.control.require_model(config.model, config.workload, config.entry.serve_command())
        versions = [config.server.model_version] if config.server.model_version else self.control.versions(config.model)
        self._reader.asked = Asked(config.model, frozenset(versions))
        self._choose_formats()
        if (tls := config.access.tls(self.url)) is not None:
            self.config["tls"] = config.access.agreed(self.url, tls)
        placement = self.control.placement(config.model)
        if "ensemble_scheduling" in (placement.model_config or {}):
            self._composing |= self.control.composing_models(config.model)
        return read_placement(placement, config.metrics_url, config.model)

    def _choose_formats(self) -> None:
        """Take JSON where the server does not say that it knows binary tensors, and note what was taken."""
        config = self._config
        if config.protocol != "http" or config.server.shared_memory != "none":
            return
        asked = Formats(config.server.input_tensor_format, config.server.output_tensor_format)
        auto = "json" if AUTO in asked and not self.control.lists_binary_tensors() else "binary"
        self._formats = Formats(*(auto if each == AUTO else each for each in asked))
        self.config["input_tensor_format"] = "json" if self._formats.inputs == "json" else "binary"
        self.config["output_tensor_format"] = "json" if self._formats.outputs == "json" else "binary"

    def payloads(self, golden: Golden | None) -> Iterator[Payload]:
        return payloads(self._config, self.encoder(), golden)

    def encoder(self) -> Callable[[Arrays], Any]:
        encode = http_encoder(self._config, urlsplit(self.url).netloc, self._formats)
        return (lambda arrays: reserved_http(encode(arrays))) if self._config.server.sequence_length else encode

    def connect(self) -> Channel:
        channel: Channel = self._channel(self.address, self._answered_by)
        return channel

    def statistics(self) -> dict[str, Any] | None:
        found = self.control.statistics(self._config.model)
        if found is None or not self._composing:
            return found
        parts = {name: replace(self.control, version=v).statistics(name) for name, v in self._composing.items()}
        return {**found, COMPOSING: {name: part for name, part in parts.items() if part is not None}}

    def close(self) -> None:
        """Nothing: the server is somebody else's."""


def in_sequences(channel: Any, config: LoadConfig, stamp: Stamp) -> Any:
    """The class of channels, or where a run has sequences one whose requests are theirs."""
    server = config.server
    if server.sequence_length is None:
        return channel
    shared = Sequences(
        server.sequence_length,
        server.start_sequence_id,
        stamp,
        variation=server.sequence_length_variation,
        seed=config.seed,
    )
    return carrying(channel, shared)


def http_encoder(config: LoadConfig, host: str, formats: Formats = BINARY) -> Callable[[Arrays], bytes]:
    """Make what serialises a batch for HTTP."""
    datatypes = {tensor.name: tensor.datatype for tensor in config.workload.inputs}

    def encode(arrays: Arrays) -> bytes:
        return encode_request(
            host,
            config.model,
            arrays,
            config.workload.outputs,
            datatypes,
            config.access.headers,
            version=config.server.model_version,
            formats=formats,
            parameters=config.server.request_parameters,
            request_id=PLACE_OF_NUMBER if config.live.explain else "",
        )

    return encode
