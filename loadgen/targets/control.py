"""The control plane of a server, over the protocol that its URL names."""

from loadgen.kserve.control import Control
from loadgen.load.load_config import LoadConfig
from loadgen.transport.access import Access
from loadgen.transport.server_url import protocol_of
from servemark.documents.server import Server


def control_of(config: LoadConfig) -> Control:
    """The control plane of a configuration's server."""
    return control_at(config.url, config.access, config.server)


def control_at(url: str, access: Access, server: Server) -> Control:
    """The control plane of the server that a request names, at this URL."""
    version = server.model_version
    if server.endpoint_type:
        from loadgen.endpoints.control import EndpointControl
        from loadgen.endpoints.endpoint import endpoint_of

        return EndpointControl(url, access, version, endpoint=endpoint_of(server.endpoint_type))
    if protocol_of(url) == "grpc":
        from loadgen.kserve.grpc_control import GrpcControl

        return GrpcControl(url, access, version)
    return Control(url, access, version)
