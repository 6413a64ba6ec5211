"""The protocol over gRPC that --endpoint-type names, and a control plane that knows only whether a model is ready."""

import json
from pathlib import Path

import pytest

from loadgen.endpoints.control import GrpcEndpointControl, Spoken, spoken_over_grpc
from loadgen.endpoints.method import HEALTH, UnaryMethod
from loadgen.endpoints.tensorflow_serving import STATUS, TensorFlowServing
from loadgen.kserve.grpc_call import GrpcAnswer
from servemark.errors import InputDataError, OptionError, ServerError
from tests.support.told import Telling, told


def own(folder: Path, **request: str) -> str:
    file = folder / "own.json"
    file.write_text(json.dumps({"about": "a ranker", "request": {"body": {}, **request}}))
    return str(file)


def require_ready(patch: pytest.MonkeyPatch, spoken: Spoken, answers: dict[str, GrpcAnswer]) -> None:
    """Ask a server that answers so whether it has the model."""
    patch.setattr(GrpcEndpointControl, "first_call", Telling(answers=answers).first_call)
    GrpcEndpointControl("grpc://told:1", spoken=spoken).require_ready("m", "name another", start="start it")


def test_a_type_names_its_protocol(tmp_path: Path) -> None:
    assert isinstance(spoken_over_grpc("tensorflow-serving"), TensorFlowServing)
    method = spoken_over_grpc(own(tmp_path, method="a.B/C"))
    assert isinstance(method, UnaryMethod)
    assert method.path == "/a.B/C"


def test_what_is_not_spoken_over_grpc_is_refused() -> None:
    with pytest.raises(OptionError, match=r"(?s)kserve-v1 is spoken over HTTP, and --url is gRPC.*tensorflow-serving"):
        spoken_over_grpc("kserve-v1")
    with pytest.raises((OptionError, InputDataError), match="nonesuch"):
        spoken_over_grpc("nonesuch")


@pytest.mark.parametrize("path", [STATUS, HEALTH])
def test_an_answer_that_cannot_be_read_is_an_error_of_the_server(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken = TensorFlowServing() if path == STATUS else spoken_over_grpc(own(tmp_path, method="a.B/C"))
    with pytest.raises(ServerError, match="grpc://told:1: what it answers of 'm' cannot be read: "):
        require_ready(monkeypatch, spoken, {path: told(b"\xff\xff")})


def test_readiness_is_what_the_protocol_says(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerError, match=r"(?s)told:1 does not serve 'm'.*name another"):
        require_ready(monkeypatch, TensorFlowServing(), {STATUS: told("grpc_not_found")})
    require_ready(monkeypatch, TensorFlowServing(), {})
