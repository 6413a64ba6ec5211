"""A model behind a KServe v2 server: connections to it, its control plane, its processes, and where it computes."""

import contextlib
import functools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from loadgen.kserve.control import TIMEOUT_S, Control
from loadgen.kserve.grpc_call import MessageReader
from loadgen.kserve.http_connection import Connection
from loadgen.kserve.http_messages import BINARY, Asked, Formats, ResponseChecker, compressed, encode_request
from loadgen.kserve.model_documents import COMPOSING
from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import PLACE_OF_NUMBER, Answer, Channel, Payload, State
from loadgen.sut.kernel_clock import KernelClock
from loadgen.sut.target import Placement, Target
from loadgen.targets.payloads import payloads
from loadgen.transport.access import Access
from loadgen.transport.limits import GZIP
from loadgen.transport.server_url import authority, path_of, protocol_of
from loadgen.transport.tcp import Address
from loadgen.variants.sequences import Sequences, Stamp, carrying, reserved_http, stamp_http
from loadgen.variants.servers import on_server
from servemark.documents.load import AUTO
from servemark.documents.request import PROCESS_CLOCK
from servemark.documents.server import Server
from servemark.figures.evidence import ConnectionTimes, Volume
from servemark.machine.addresses import is_address, lookup, named
from servemark.repository.entry import Golden
from servemark.repository.model_config import same_version
from servemark.results.schema.run import Resolved
from servemark.telemetry.http_request import ask, place_of
from servemark.workload import Arrays, Tensor

ENGINE_METRIC = "servemark_engine_info"
"""Always 1; its labels say engine, device and provider of each instance (servers/triton_backend/adapter.py)."""
_LABELS = {"engine", "device", "provider"}
# From the start of a name only: a word of 8 MiB would be tried from each of its letters.
_LABEL = re.compile(r'\b(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class HttpTarget(Target):
    """A server at a URL, or several that take requests in turn, over HTTP; `checker` checks their answers."""

    protocol = "http"
    no_statistics = "the server gives no Triton statistics"

    def __init__(
        self, config: LoadConfig, checker: Callable[[Sequence[Tensor], int], ResponseChecker] = ResponseChecker
    ) -> None:
        self.urls = config.urls
        self.config: Resolved = {
            **config.resolved(),
            "tls": config.access.tls(config.url),
            "headers": [name for name, _ in config.access.headers] or None,
        }
        self.controls = [control_at(url, config.access, config.server) for url in self.urls]
        self._config = config
        self._reader: ResponseChecker | MessageReader = checker(config.workload.outputs, config.wire_batch)
        self._answered_by: list[Any] = [self._reader for _ in self.urls]
        self.channel_class: Any = in_sequences(Connection, config, stamp_http)
        self._formats = BINARY
        self.connection_times = ConnectionTimes() if config.server.no_connection_reuse else None
        self.volume = Volume()
        self.clock: KernelClock = KernelClock(asked=config.limits.receive_clock != PROCESS_CLOCK)
        self._answers = self.volume if config.server.response_compression == GZIP else None
        """Counts compressed answers; None: no answer may be compressed."""
        if isinstance(self._reader, ResponseChecker):
            self._reader.volume = self._answers
        self._composing = dict(config.server.bls_composing_models)
        """The models of a pipeline, whose statistics are read too, with their versions."""
        self._widened: set[str] = set()
        """Inputs of one value per sample that the server gives a dimension of 1."""
        if self.several:
            self.no_statistics = "each of several servers has its own"
        elif config.server.endpoint_type:
            self.no_statistics = "the endpoint type has no statistics"

    @property
    def control(self) -> Control:
        """Return the control plane of the server, of several the first one's."""
        return self.controls[0]

    @property
    def several(self) -> bool:
        """Return True if more than one server takes the requests."""
        return len(self.urls) > 1

    @functools.cached_property
    def addresses(self) -> list[Address]:
        """Return the servers' addresses, resolved once. Raises ServerError."""
        return [replace(self._config.access.address(url), clock=self.clock) for url in self.urls]

    @property
    def local(self) -> bool:
        return all(address.is_local for address in self.addresses)

    def processes(self) -> list[int]:
        if (root := self._config.server_root) is not None:
            return [root]
        return server_processes(self._config, self.addresses)

    def prepare(self) -> Placement:
        config = self._config
        if self.connection_times is not None:
            self.connection_times.dns_ms = _look_up(config.url)
        versions = {config.server.model_version} - {""}
        for control in self.controls:
            self._widened |= {*control.require_model(config.model, config.workload, config.entry.serve_command())}
            if not config.server.model_version:
                versions.update(control.versions(config.model))
        self._reader.asked = Asked(config.model, frozenset().union(*map(same_version, versions)))
        self._choose_formats()
        if (tls := config.access.tls(config.url)) is not None:
            self.config["tls"] = config.access.agreed(config.url, tls)
        if self.several:
            return joined([control.placement(config.model) for control in self.controls])
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
        binary = AUTO not in asked or all(control.lists_binary_tensors() for control in self.controls)
        auto = "binary" if binary else "json"
        self._formats = Formats(*(auto if each == AUTO else each for each in asked))
        self.config["input_tensor_format"] = "json" if self._formats.inputs == "json" else "binary"
        self.config["output_tensor_format"] = "json" if self._formats.outputs == "json" else "binary"

    def payloads(self, golden: Golden | None) -> Iterator[Payload]:
        return payloads(self._config, self.encoder(), golden)

    def encoder(self) -> Callable[[Arrays], Any]:
        encoders = [self._encoder(control) for control in self.controls]
        volume = self.volume if self._config.server.request_compression == GZIP else None

        def encode(arrays: Arrays) -> Any:
            served = self.as_served(arrays)
            requests = tuple(each(served) for each in encoders)
            if volume is not None:
                requests = tuple(compressed(request, volume) for request in requests)
            return requests if self.several else requests[0]

        return encode

    def as_served(self, arrays: Arrays) -> Arrays:
        """Return inputs in the shapes that the server gives them, once it is prepared."""
        widened = self._widened
        return {name: a.reshape(*a.shape, 1) if name in widened else a for name, a in arrays.items()}

    def _encoder(self, control: Control) -> Callable[[Arrays], Any]:
        """Make what serialises a batch for the server of this control plane."""
        config, server = self._config, self._config.server
        datatypes = {tensor.name: tensor.datatype for tensor in config.workload.inputs}
        path = path_of(control.url) + control.path(config.model)

        def encode(arrays: Arrays) -> bytes:
            request = encode_request(
                authority(control.url),
                config.model,
                arrays,
                config.workload.outputs,
                datatypes,
                header_fields(config),
                path=path,
                formats=self._formats,
                parameters=server.request_parameters,
                request_id=PLACE_OF_NUMBER if config.live.explain else "",
            )
            return reserved_http(request) if server.sequence_length else request

        return encode

    def connect(self, server: int = 0) -> Channel:
        channel = self._class(self.addresses[server], self._answered_by[server])
        if self.several:
            channel.server = server
        made: Channel = channel
        return made

    @functools.cached_property
    def _class(self) -> Any:
        """The class of channels as it is once the target is prepared."""
        channel = self.channel_class
        if self.connection_times is not None:
            channel = used_once(channel, self.connection_times)
        return on_server(channel) if self.several else channel

    def statistics(self) -> dict[str, Any] | None:
        found = None if self.several else self.control.statistics(self._config.model)
        if found is None or not self._composing:
            return found
        parts = {name: replace(self.control, version=v).statistics(name) for name, v in self._composing.items()}
        return {**found, COMPOSING: {name: part for name, part in parts.items() if part is not None}}


def joined(placements: Sequence[Placement]) -> Placement:
    """The placement on several servers: what they have in common, else each one's; unknown where one does not tell."""

    def all_of(values: Sequence[str | None]) -> str | None:
        known = [value for value in values if value]
        return ", ".join(dict.fromkeys(known)) if len(known) == len(values) else None

    configs = [each.model_config for each in placements]
    return Placement(
        all_of([each.engine for each in placements]),
        all_of([each.device for each in placements]),
        all_of([each.provider for each in placements]),
        configs[0] if all(config == configs[0] for config in configs) else None,
    )


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


def header_fields(config: LoadConfig) -> list[tuple[str, str]]:
    """The header fields that the user adds to each request, and those of how the connection is used."""
    once = [("connection", "close")] if config.server.no_connection_reuse else []
    packed = [("accept-encoding", GZIP)] if config.server.response_compression == GZIP else []
    return [*config.access.headers, *once, *packed]


def _look_up(url: str) -> float | None:
    """Look the name of a server up, which holds for the run; returns the ms that it took, None without a name."""
    host = urlsplit(url).hostname or ""
    if not host or is_address(host):
        return None
    begun = time.monotonic_ns()
    with contextlib.suppress(OSError):  # the first question to the server says so
        lookup(host)
    return (time.monotonic_ns() - begun) / 1e6


def read_placement(placement: Placement, metrics_url: str | None, model: str) -> Placement:
    """Complete what the configuration says by what was read back from the engine, where the metrics are known."""
    if metrics_url is None:
        return placement
    try:
        endpoint, path = place_of(metrics_url)
        metrics = ask(endpoint, path, timeout_s=TIMEOUT_S).body
    except (OSError, HTTPException):
        return placement
    return placement_in(metrics, placement, model)


def placement_in(metrics: bytes, placement: Placement, model: str) -> Placement:
    """Complete a placement by what metrics in Prometheus' text format say of a model."""
    text = metrics.decode(errors="replace")
    labels = [
        {
            name: _ESCAPED.sub(lambda found: {"n": "\n"}.get(found[1], found[1]), value)
            for name, value in _LABEL.findall(line)
        }
        for line in text.split("\n")
        if line.startswith(f"{ENGINE_METRIC}{{")
    ]
    instances = [found for found in labels if found.get("model") == model and found.keys() >= _LABELS]
    if not instances:
        return placement
    devices = ",".join(sorted({found["device"] for found in instances}))
    providers = ", ".join(sorted({found["provider"] for found in instances}))
    return replace(placement, engine=instances[0]["engine"], device=devices, provider=providers)


def control_of(config: LoadConfig) -> Control:
    """The control plane of a configuration's server."""
    return control_at(config.url, config.access, config.server)


def control_at(url: str, access: Access, server: Server) -> Control:
    """The control plane of the server that a request names, at this URL."""
    version, over_grpc = server.model_version, protocol_of(url) == "grpc"
    if server.endpoint_type:
        from loadgen.endpoints.control import GrpcEndpointControl, HttpEndpointControl, spoken_over_grpc
        from loadgen.endpoints.endpoint import over_http

        if over_grpc:
            return GrpcEndpointControl(url, access, version, spoken=spoken_over_grpc(server.endpoint_type))
        return HttpEndpointControl(url, access, version, endpoint=over_http(server.endpoint_type))
    if over_grpc:
        from loadgen.kserve.grpc_control import GrpcControl

        return GrpcControl(url, access, version)
    return Control(url, access, version)


def server_processes(config: LoadConfig, addresses: Iterable[Address]) -> list[int]:
    """Return the roots of their trees: who listens, and who was named. None: the server is on another machine.

    Raises LookupError where they cannot be known and none was named, OptionError for a name that no process has.
    """
    also = named(config.server.server_processes)
    try:
        listening = {pid for address in addresses for pid in address.processes()}
    except LookupError:
        if not also:
            raise
        listening = set()
    return sorted({*listening, *also})


def used_once(channel: Any, times: ConnectionTimes) -> Any:
    """A class of channels like `channel` that carry one request, and stamp the parts of their connection.

    A request counts as sent when its connection is begun: the handshake is a part of its service time.
    """

    class UsedOnce(channel):  # type: ignore[misc]
        __slots__ = ("_begun", "_connected", "_first", "_ready")

        def open(self) -> None:
            self._begun = time.monotonic_ns()
            self._connected = self._ready = self._first = 0
            super().open()

        def connected(self) -> None:
            if not self._connected:
                self._connected = time.monotonic_ns()
            super().connected()
            if self.state is not State.CONNECTING:
                self._ready = time.monotonic_ns()

        def start(self) -> None:
            own: Any = self
            own.sent = self._begun
            super().start()

        def cancel(self) -> bool:
            return False  # it would go on with another request

        def readable(self) -> Answer | None:
            answer: Answer | None = super().readable()
            if not self._first and (answer is not None or self.answer_begun):
                self._first = self.done if answer is not None else self.came
            if answer is not None:
                own: Any = self
                own.state = State.SPENT
                if answer.error is None and self.done <= self.deadline:
                    times.take(self.scheduled, self._begun, self._connected, self._ready, self._first, self.done)
            return answer

    return UsedOnce
