"""The control plane over gRPC: what a server says that does not have its methods."""

import pytest

from loadgen.kserve.grpc_call import GrpcAnswer
from loadgen.kserve.grpc_control import GrpcControl
from loadgen.kserve.grpc_messages import SERVICE, message
from servemark.errors import ServerError
from tests.support.told import Telling, told

READY = f"/{SERVICE}/ModelReady"


@pytest.mark.parametrize(("answers", "fix"), [
    ({}, "--endpoint-type where the server does not speak KServe v2"),
    ({READY: told("grpc_not_found")}, "name another"),
    ({READY: told(message("ModelReadyResponse", ready=False).SerializeToString())}, "name another"),
])  # fmt: skip
def test_a_server_of_another_protocol_has_its_own_remedy(
    answers: dict[str, GrpcAnswer], fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GrpcControl, "first_call", Telling(answers=answers).first_call)
    with pytest.raises(ServerError, match=rf"(?s)grpc://told:1 does not serve 'm'\n.*fix: {fix}"):
        GrpcControl("grpc://told:1").require_ready("m", "name another", start="start it")
