"""A model behind a KServe v2 server."""

import ipaddress
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from loadgen.kserve.http_connection import Connection
from loadgen.kserve.http_messages import ResponseChecker, encode_request
from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import Channel, Payload
from loadgen.sut.target import Placement
from loadgen.targets.control import control_of
from loadgen.targets.engine_info import read_placement
from loadgen.targets.payloads import payloads
from loadgen.transport.server_url import is_secure
from loadgen.transport.tcp import Address
from servemark.machine.addresses import listeners
from servemark.repository.entry import Golden
from servemark.workload import Arrays


class HttpTarget:
    """A server at a URL, over HTTP; `checker` is what its answers are checked with."""

    protocol = "http"
    shared_memory = "none"
    no_statistics = "the server gives no Triton statistics"

    def __init__(self, config: LoadConfig, checker: type[ResponseChecker] = ResponseChecker) -> None:
        self.url: str = config.url
        self.config: dict[str, Any] = {"url": config.url, **config.access.to_dict(config.url)}
        self.control = control_of(config)
        self._config = config
        self._checker = checker(config.workload.outputs, config.batch_size)
        self._address: Address | None = None

    @property
    def address(self) -> Address:
        """Where the server listens, resolved once. Raises ServerError."""
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
        if is_secure(self.url):
            self.config["tls"] |= config.access.agreed(self.url)
        return read_placement(self.control.placement(config.model), config.metrics_url, config.model)

    def payloads(self, golden: Golden | None) -> Iterator[Payload]:
        return payloads(self._config, self.encoder(), golden)

    def encoder(self) -> Callable[[Arrays], Any]:
        return http_encoder(self._config, urlsplit(self.url).netloc)

    def connect(self) -> Channel:
        return Connection(self.address, self._checker)

    def statistics(self) -> dict[str, Any] | None:
        return self.control.statistics(self._config.model)

    def close(self) -> None:
        """Nothing: the server is somebody else's."""


def http_encoder(config: LoadConfig, host: str) -> Callable[[Arrays], bytes]:
    """Make what serialises a batch for HTTP."""
    datatypes = {tensor.name: tensor.datatype for tensor in config.workload.inputs}

    def encode(arrays: Arrays) -> bytes:
        return encode_request(host, config.model, arrays, config.workload.outputs, datatypes, config.access.headers)

    return encode
