"""A model behind a KServe v2 server that shares memory with this machine: the system's, or a GPU's."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from loadgen.kserve.tensors import BYTES, to_bytes
from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import Payload
from loadgen.sut.target import Placement
from loadgen.targets.grpc import GrpcTarget
from loadgen.targets.http import HttpTarget
from loadgen.targets.payloads import payloads
from loadgen.targets.shared_region import CudaRegion, PosixRegion, Region, abandoned, new_name, require_gpu
from loadgen.targets.shared_slots import (
    Layout,
    RequestEncoding,
    SharedChecker,
    SharedGrpc,
    SharedHttp,
    SharedReader,
    SharedTensor,
    Slots,
    sharing,
)
from servemark.errors import OptionError, ServerError
from servemark.repository.entry import Golden
from servemark.workload import Arrays

IN_USE = "currently in use"
"""Triton's words where a request that was given up, the first one of a cold model perhaps, still has the region."""
IN_USE_S, POLL_S = 2.0, 0.02
"""Maximum wait for a request that still uses its slot, and the interval between checks."""


class SharedMemoryTarget(HttpTarget):
    """A server that finds inputs in, and puts outputs into, one region that this run registers."""

    def __init__(self, config: LoadConfig, checker: Any = SharedChecker) -> None:
        super().__init__(config, checker)
        self.shared_memory = config.server.shared_memory
        self.volume = None
        self._encoding: RequestEncoding = SharedHttp(config, self.control)
        self._region: Region | None = None
        self.channel_class = sharing(self.channel_class, lambda: self._slots)
        self._share(0)

    def _share(self, device: int) -> None:
        """Share the memory of this GPU, where it is a GPU's that is shared."""
        self._device = device
        self.config["shared_memory_device"] = f"cuda:{device}" if self.shared_memory == CudaRegion.kind else None

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
        placement = super().prepare()
        self._share(_gpu(placement.device))
        return placement

    def payloads(self, golden: Golden | None) -> Iterator[Payload]:
        """Write the inputs into the region, then the slots for outputs, and register it. Raises ServerError."""
        config = self._config
        self._sweep()
        layout = Layout(new_name(self.shared_memory))
        written: list[tuple[int, bytes]] = []

        def encode(arrays: Arrays) -> bytes:
            tensors, served = [], self.as_served(arrays)
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
        self.control.register_memory(region.kind, region.name, region.registration)
        return made

    def encoder(self) -> Callable[[Arrays], Any]:
        """There is none: the region is laid out before the run."""
        raise OptionError("these requests cannot lie in shared memory", fix="--shared-memory none")

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
                self.control.unregister_memory(region.kind, region.name)
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
                self.control.unregister_memory(kind, name)

    def _allocate(self, layout: Layout) -> Region:
        if self.shared_memory == CudaRegion.kind:
            return CudaRegion(layout.region, layout.size, self._device)
        return PosixRegion(layout.region, layout.size)

    def _outputs(self, layout: Layout) -> tuple[SharedTensor, ...]:
        workload, lead = self._config.workload, self._config.lead
        return tuple(layout.add(tensor, (*lead, *tensor.shape)) for tensor in workload.outputs)


class SharedGrpcTarget(SharedMemoryTarget, GrpcTarget):
    """The same over gRPC."""

    def __init__(self, config: LoadConfig) -> None:
        super().__init__(config, SharedReader)
        self._encoding = SharedGrpc(config)


def _gpu(device: str | None) -> int:
    """The number of the first GPU that the model runs on; 0 where it runs elsewhere or the server does not say."""
    kind, _, index = (device or "").partition(",")[0].partition(":")
    return int(index) if kind == "cuda" and index.isdecimal() else 0
