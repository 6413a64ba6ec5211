"""The control plane of a server, over the protocol that its URL names."""

from loadgen.kserve.control import Control
from loadgen.load.load_config import LoadConfig


def control_of(config: LoadConfig) -> Control:
    """The control plane of a server, over the protocol that its URL names."""
    if config.protocol == "grpc":
        from loadgen.kserve.grpc_control import GrpcControl

        return GrpcControl(config.url, config.access)
    return Control(config.url, config.access)
