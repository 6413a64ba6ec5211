"""Choose the target that a configuration asks for."""

import ctypes

from loadgen.load.load_config import LoadConfig
from loadgen.sut.target import Target
from loadgen.targets.http import HttpTarget
from servemark.machine.addresses import forget

# malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
MMAP_THRESHOLD_BYTES = 32 << 20
"""Blocks up to this size come from the heap; glibc takes no more."""
TRIM_THRESHOLD_BYTES = 256 << 20
"""Free heap memory kept by the process instead of returned to the OS."""


def tune_malloc() -> bool:
    """Keep freed blocks instead of giving them back to the kernel; whether the C library can be told so.

    Requests and responses of 100 kB and more are made and freed again and again. glibc gives such blocks back, and
    the kernel clears and maps new pages for the next ones: at 600 kB each way page faults were half of a request's CPU.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {_M_MMAP_THRESHOLD: MMAP_THRESHOLD_BYTES, _M_TRIM_THRESHOLD: TRIM_THRESHOLD_BYTES}
    return all(mallopt(parameter, value) for parameter, value in settings.items())


def open_target(config: LoadConfig) -> Target:
    """The server, over the protocol that its URL names, with tensors where the configuration wants them."""
    tune_malloc()
    forget()
    if config.server.shared_memory != "none":
        from loadgen.targets.shared_memory import SharedMemoryTarget

        return SharedMemoryTarget(config)
    if config.server.endpoint_type and config.protocol == "grpc":
        from loadgen.targets.grpc import GrpcEndpointTarget

        return GrpcEndpointTarget(config)
    if config.protocol == "grpc":
        from loadgen.targets.grpc import GrpcTarget

        return GrpcTarget(config)
    if config.server.endpoint_type:
        from loadgen.targets.endpoint import EndpointTarget

        return EndpointTarget(config)
    return HttpTarget(config)
