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
    over_grpc = protocol_of(url) == "grpc"
    if server.endpoint_type and over_grpc:
        from loadgen.endpoints.over_grpc import GrpcEndpointControl, spoken_over_grpc

        return GrpcEndpointControl(url, access, version, spoken=spoken_over_grpc(server.endpoint_type))
    if server.endpoint_type:
        from loadgen.endpoints.control import HttpEndpointControl
        from loadgen.endpoints.endpoint import over_http

        return HttpEndpointControl(url, access, version, endpoint=over_http(server.endpoint_type))
    if over_grpc:
        from loadgen.kserve.grpc_control import GrpcControl

        return GrpcControl(url, access, version)
    return Control(url, access, version)
