"""The control plane of a server, over the protocol that its URL names."""

from loadgen.kserve.control import Control
from loadgen.load.load_config import LoadConfig
from loadgen.transport.access import Access
from loadgen.transport.server_url import protocol_of


def control_of(config: LoadConfig) -> Control:
    """The control plane of a configuration's server."""
    return control_at(config.url, config.access, config.server.model_version)


def control_at(url: str, access: Access, version: str) -> Control:
    """The control plane of a server, about one version of its models or, where that is empty, its choice."""
    if protocol_of(url) == "grpc":
        from loadgen.kserve.grpc_control import GrpcControl

        return GrpcControl(url, access, version)
    return Control(url, access, version)
