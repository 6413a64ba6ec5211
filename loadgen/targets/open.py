"""Choose the target that a configuration asks for."""

from loadgen.driver.malloc import tune_malloc
from loadgen.load.load_config import LoadConfig
from loadgen.sut.target import Target
from loadgen.targets.http import HttpTarget
from servemark.machine.addresses import forget


def open_target(config: LoadConfig) -> Target:
    """The server, over the protocol that its URL names, with tensors where the configuration wants them."""
    tune_malloc()
    forget()
    if config.server.shared_memory != "none":
        from loadgen.targets.shared_memory import SharedMemoryTarget

        return SharedMemoryTarget(config)
    if config.server.endpoint_type and config.protocol == "grpc":
        from loadgen.targets.endpoint_grpc import GrpcEndpointTarget

        return GrpcEndpointTarget(config)
    if config.protocol == "grpc":
        from loadgen.targets.grpc import GrpcTarget

        return GrpcTarget(config)
    if config.server.endpoint_type:
        from loadgen.targets.endpoint import EndpointTarget

        return EndpointTarget(config)
    return HttpTarget(config)
