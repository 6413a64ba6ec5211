"""A model behind a KServe v2 server on this machine, over HTTP, its tensors in system shared memory."""

import math
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import requests

from loadgen.channel import Channel, Payload
from loadgen.control import TIMEOUT_S
from loadgen.inputs import payloads
from loadgen.options import LoadConfig
from loadgen.served import Served
from loadgen.shared_memory import Region, SharedChecker, SharedConnection, encoder, sweep
from loadgen.target import Placement
from servemark.artifacts import Golden
from servemark.errors import OptionError, ServerError


class ServedShared(Served):
    """A server that finds inputs in, and puts outputs into, memory that this run made and registered."""

    shared_memory = "system"

    def __init__(self, config: LoadConfig) -> None:
        super().__init__(config)
        outputs = config.workload.outputs
        self._checker = SharedChecker(outputs, config.batch_size)
        self._sizes = {t.name: config.batch_size * math.prod(t.shape) * t.dtype.itemsize for t in outputs}
        self._regions: list[Region] = []
        self._places: list[dict[str, int]] = []

    def prepare(self) -> Placement:
        """Check the model that is served. Raises ServerError, OptionError where memory cannot be shared."""
        if not self.local:
            raise OptionError(f"{self.url} is another machine, which shares no memory", fix="--shared-memory none")
        varying = [tensor.name for tensor in self._config.workload.outputs if tensor.variable_axes]
        if varying:
            raise OptionError(
                f"{self._config.workload.name} answers {varying[0]} in sizes that vary, which need a place of a known "
                "size in shared memory",
                fix="--shared-memory none",
            )
        return super().prepare()

    def payloads(self, golden: Golden | None) -> Iterator[Payload]:
        """Write the inputs into memory, make room for each connection's outputs, register both. Raises ServerError."""
        config = self._config
        sweep()
        inputs, outputs = Region("inputs"), Region("outputs")
        self._regions = [inputs, outputs]
        datatypes = {tensor.name: tensor.datatype for tensor in config.workload.inputs}
        encode = encoder(urlsplit(self.url).netloc, config.model, inputs, outputs, self._sizes, datatypes)
        made = payloads(config, encode, golden)
        connections = config.max_in_flight if config.open_loop else config.concurrency or 1
        self._places = [{name: outputs.reserve(size) for name, size in self._sizes.items()} for _ in range(connections)]
        for region in self._regions:
            self._ask(f"{region.name}/register", {"key": region.key, "offset": 0, "byte_size": region.size})
        return made

    def connect(self) -> Channel:
        """Make a connection with a place of its own, which it gives back when it closes."""
        return SharedConnection(self.address, self._checker, self._regions[1], self._places)

    def close(self) -> None:
        """Take the memory back; a server that is gone has forgotten it anyway."""
        for region in self._regions:
            try:
                self._ask(f"{region.name}/unregister", {})
            except ServerError:
                pass
            finally:
                region.close()
        self._regions = []

    def _ask(self, path: str, body: dict[str, Any]) -> None:
        """Ask Triton's shared-memory extension. Raises ServerError with its words."""
        url = f"{self.url}/v2/systemsharedmemory/region/{path}"
        try:
            answer = requests.post(url, json=body, timeout=TIMEOUT_S)
        except requests.RequestException as error:
            raise ServerError(f"{url}: {error}") from error
        if answer.status_code != requests.codes.ok:
            raise ServerError(
                f"{url} answered {answer.status_code}: {answer.text.strip()[:200]}",
                fix="--shared-memory none, where the server does not see this machine's /dev/shm",
            )
