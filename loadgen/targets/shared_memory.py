"""A model behind a KServe v2 server that shares memory with this machine: the system's, or a GPU's."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from loadgen.kserve.tensors import BYTES, to_bytes
from loadgen.load.load_config import LoadConfig
from loadgen.targets.shared_region import CudaRegion, PosixRegion, Region, abandoned, new_name, require_gpu
from loadgen.targets.shared_slots import (
    Layout,
    RequestEncoding,
    SharedChannel,
    SharedChecker,
    SharedGrpc,
    SharedHttp,
    SharedReader,
    SharedTensor,
    Slots,
)
from loadgen.sut.channel import Channel, Payload
from loadgen.sut.target import Placement
from loadgen.targets.http import HttpTarget
from loadgen.targets.payloads import payloads
from servemark.errors import OptionError, ServerError
from servemark.repository.entry import Golden
from servemark.results.schema.run import Resolved
from servemark.workload import Arrays

IN_USE = "currently in use"
"""Triton's words where a request that was given up, the first one of a cold model perhaps, still has the region."""
IN_USE_S, POLL_S = 2.0, 0.02
"""Maximum wait for a request that still uses its slot, and the interval between checks."""


class SharedMemoryTarget:
    """A server over any protocol that finds inputs in, and puts outputs into, one region that this run registers."""

    def __init__(self, config: LoadConfig) -> None:
        self._config = config
        self._target, self._encoding = _target_over(config)
        self._device = 0
        self._region: Region | None = None
        self.protocol = self._target.protocol
        self.shared_memory = config.server.shared_memory
        self.decoupled = False
        self.connection_times = self.volume = None
        self.clock = self._target.clock
        self.no_statistics = self._target.no_statistics

    @property
    def config(self) -> Resolved:
        """That of the server, and the GPU whose memory is shared, None where none's is."""
        device = f"cuda:{self._device}" if self.shared_memory == CudaRegion.kind else None
        found = self._target.config.copy()
        found["shared_memory_device"] = device
        return found

    @property
    def local(self) -> bool:
        return self._target.local

    def processes(self) -> list[int]:
        return self._target.processes()

    def prepare(self) -> Placement:
        """Check the model that is served. Raises ServerError, OptionError where memory cannot be shared."""
        workload = self._config.workload
        varying = [tensor.name for tensor in workload.outputs if tensor.variable_axes or tensor.datatype == BYTES]
        if varying:
            raise OptionError(
                f"{workload.name} answers {varying[0]} in sizes that vary, which need a place of a known "
                "size in shared memory",
                fix="--shared-memory none",
            )
        if self.shared_memory == CudaRegion.kind:
            require_gpu()
        placement = self._target.prepare()
        self._device = _gpu(placement.device)
        return placement

    def payloads(self, golden: Golden | None) -> Iterator[Payload]:
        """Write the inputs into the region, then the slots for outputs, and register it. Raises ServerError."""
        config = self._config
        self._sweep()
        layout = Layout(new_name(self.shared_memory))
        written: list[tuple[int, bytes]] = []

        def encode(arrays: Arrays) -> bytes:
            tensors, served = [], self._target.as_served(arrays)
            for tensor in config.workload.inputs:
                if (array := served.get(tensor.name)) is not None:
                    data = to_bytes(array, tensor.datatype)
                    tensors.append(layout.add(tensor, array.shape, len(data)))
                    written.append((tensors[-1].offset, data))
            return self._encoding.inputs(tensors)

        made = payloads(config, encode, golden)
        most = config.limits.max_in_flight if config.open_loop else config.concurrency or 1
        outputs = [self._outputs(layout) for _ in range(most)]
        region = self._region = self._allocate(layout)
        for offset, data in written:
            region.write(offset, data)
        self._slots = Slots(region, self._encoding, outputs)
        self._target.control.register_memory(region.kind, region.name, region.registration)
        return made

    def encoder(self) -> Callable[[Arrays], Any]:
        """There is none: the region is laid out before the run."""
        raise OptionError("these requests cannot lie in shared memory", fix="--shared-memory none")

    def connect(self, server: int = 0) -> Channel:
        return SharedChannel(self._target.connect(server), self._slots)

    def statistics(self) -> dict[str, Any] | None:
        return self._target.statistics()

    def close(self) -> None:
        """Take the memory back; a server that is gone has forgotten it anyway."""
        region, self._region = self._region, None
        if region is not None:
            try:
                self._unregister(region)
            finally:
                region.close()

    def _unregister(self, region: Region) -> None:
        deadline = time.monotonic() + IN_USE_S
        while True:
            try:
                self._target.control.unregister_memory(region.kind, region.name)
            except ServerError as error:
                if IN_USE in error.what and time.monotonic() < deadline:
                    time.sleep(POLL_S)
                    continue
            return

    def _sweep(self) -> None:
        """Take away what runs that were killed have left, here and on this server."""
        for kind, name in abandoned():
            # The region may be known to another server, or to one that is gone.
            with contextlib.suppress(ServerError):
                self._target.control.unregister_memory(kind, name)

    def _allocate(self, layout: Layout) -> Region:
        if self.shared_memory == CudaRegion.kind:
            return CudaRegion(layout.region, layout.size, self._device)
        return PosixRegion(layout.region, layout.size)

    def _outputs(self, layout: Layout) -> tuple[SharedTensor, ...]:
        workload, lead = self._config.workload, self._config.lead
        return tuple(layout.add(tensor, (*lead, *tensor.shape)) for tensor in workload.outputs)


def _target_over(config: LoadConfig) -> tuple[HttpTarget, RequestEncoding]:
    """The server over its protocol, whose connections judge answers without tensors, and how it names slots."""
    if config.protocol == "grpc":
        from loadgen.targets.grpc import GrpcTarget

        return GrpcTarget(config, SharedReader), SharedGrpc(config)
    target = HttpTarget(config, SharedChecker)
    return target, SharedHttp(config, target.control)


def _gpu(device: str | None) -> int:
    """The number of the first GPU that the model runs on; 0 where it runs elsewhere or the server does not say."""
    kind, _, index = (device or "").partition(",")[0].partition(":")
    return int(index) if kind == "cuda" and index.isdecimal() else 0
