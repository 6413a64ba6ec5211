"""A model behind a unary method over gRPC that is not KServe v2's."""

from collections.abc import Callable, Sequence

from loadgen.endpoints.over_grpc import GrpcEndpointControl
from loadgen.kserve.grpc_call import MessageReader
from loadgen.targets.grpc import GrpcTarget
from servemark.workload import Arrays


class GrpcEndpointTarget(GrpcTarget):
    """A server at a URL, asked by the protocol that --endpoint-type names. Raises as `Spoken`."""

    no_statistics = "the endpoint type has no statistics"

    @property
    def control(self) -> GrpcEndpointControl:
        control = super().control
        assert isinstance(control, GrpcEndpointControl)
        return control

    def _make_reader(self) -> MessageReader:
        return self.control.spoken.reader(self.control, self._config)

    def _call(self) -> tuple[str, Sequence[tuple[str, str]]]:
        return self.control.spoken.path, self.control.spoken.metadata

    def _serialising(self) -> Callable[[Arrays], bytes]:
        return self.control.spoken.encoder(self.control, self._config)
