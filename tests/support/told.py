"""A server over gRPC that answers what a test says, without sockets; it notes what it was asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from google.protobuf.message import Message

from loadgen.kserve.grpc_call import UNIMPLEMENTED, GrpcAnswer, Method, enclose
from loadgen.kserve.grpc_control import OverGrpc
from loadgen.load.load_config import LoadConfig
from servemark.workload import Tensor
from tests.support.any_workload import any_workload
from tests.support.load_config import config


def told(message: bytes | str) -> GrpcAnswer:
    """An answer: a serialised message, or the kind of failure of its status."""
    method = Method("", "", 0)
    if isinstance(message, str):
        return GrpcAnswer(b"", message, "its words", method)
    return GrpcAnswer(enclose(message), None, "", method)


def described_config(kind: str, *inputs: Tensor, outputs: Sequence[Tensor], version: str = "") -> LoadConfig:
    """The configuration of a run on the model m with these tensors, at such a server."""
    flags = ["--model-name=m", "--url=grpc://told:1", f"--endpoint-type={kind}", f"--model-version={version}"]
    return config("", *flags, lookup=lambda _: any_workload(inputs, outputs, name="m"))


@dataclass(frozen=True)
class Telling(OverGrpc):
    """A server with the answers of some methods, by their paths; it does not have any other."""

    url: str = "grpc://told:1"
    answers: Mapping[str, GrpcAnswer] = field(kw_only=True, default_factory=dict)
    asked: list[tuple[str, bytes]] = field(kw_only=True, default_factory=list)

    def first_call(self, path: str, request: Message, fix: str) -> GrpcAnswer:  # noqa: ARG002
        self.asked.append((path, request.SerializeToString()))
        return self.answers.get(path, told(UNIMPLEMENTED))
