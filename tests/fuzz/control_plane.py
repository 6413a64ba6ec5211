"""Control plane of a server: readiness, metadata, configuration, statistics, metrics; over HTTP and gRPC."""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from loadgen.kserve import control, grpc_control
from loadgen.kserve.grpc_call import GrpcAnswer, enclose
from loadgen.kserve.model_documents import batch_sizes, composing_models, restarted
from loadgen.sut.target import Placement
from loadgen.targets.http import placement_in
from servemark.errors import ServerError
from servemark.figures.server import of_model
from servemark.results.directory import to_json
from servemark.telemetry.http_request import Reply
from servemark.workload import get
from tests.fuzz.damage import damaged, hostile_json
from tests.fuzz.grpc_answers import NEWER, method
from tests.fuzz.target import Target

WORKLOAD = get("ranking_tiny")
MAX_ERROR = 1000
DURATION = {"count": 3, "ns": 4000}
TIMES = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
STATISTICS: dict[str, Any] = {
    "name": "m",
    "version": "1",
    "inference_count": 3,
    "execution_count": 2,
    "inference_stats": dict.fromkeys(TIMES, DURATION),
    "batch_stats": [{"batch_size": 2, "compute_infer": DURATION}],
}
BEFORE = {
    **copy.deepcopy(STATISTICS),
    "inference_count": 1,
    "execution_count": 1,
    "inference_stats": {key: {"count": 1, "ns": 1000} for key in TIMES},
}
METADATA = {
    "name": "m",
    "inputs": [{"name": t.name, "datatype": t.datatype, "shape": [-1, *t.shape]} for t in WORKLOAD.inputs],
    "outputs": [{"name": t.name, "datatype": t.datatype, "shape": [-1, *t.shape]} for t in WORKLOAD.outputs],
}
CONFIG = {
    "max_batch_size": 8,
    "input": [{"name": "user", "optional": True}],
    "ensemble_scheduling": {"step": [{"model_name": "a", "model_version": -1}]},
    "backend": "onnxruntime",
    "instance_group": [{"kind": "KIND_GPU", "gpus": [0, 1]}],
    "model_transaction_policy": {"decoupled": False},
}
LABELS = 'servemark_engine_info{device="cuda:0",engine="pytorch",model="m",provider="a \\"b\\""} 1\n'


@dataclass(frozen=True)
class Heard(control.Control):
    """A control plane that hears one thing, whatever it asks."""

    url: str = "http://127.0.0.1:1"
    body: bytes = b""
    status: int = 200

    def ask(self, path: str, body: bytes | None = None, *, fix: str = "") -> Reply:  # noqa: ARG002 - its base's
        return Reply(self.status, self.body)


@dataclass(frozen=True)
class HeardOverGrpc(grpc_control.GrpcControl):
    """The same over gRPC."""

    url: str = "grpc://127.0.0.1:1"
    body: bytes = b""

    def _call(self, name: str, /, **fields: Any) -> GrpcAnswer:  # noqa: ARG002 - its base's
        return GrpcAnswer(enclose(self.body), None, "", method())


def _refusing(ask: Callable[[], object]) -> None:
    """A refusal says what is wrong in a few words."""
    try:
        ask()
    except ServerError as error:
        said = error.what
    else:
        return
    assert len(said) <= MAX_ERROR, f"a refusal of {len(said)} characters"


def _questions(server: control.Control) -> None:
    """Every question of a run, and what becomes of the answers in a result."""
    _refusing(lambda: server.require_model("m", WORKLOAD, "serve"))
    _refusing(lambda: server.served_model("m"))
    assert server.lists_binary_tensors() in {True, False}
    assert len(server.composing_models("m")) <= control.MAX_COMPOSING
    placement = server.placement("m")
    to_json(placement.__dict__)
    assert isinstance(server.decoupled("m"), bool)
    _counters(server.statistics("m"))


def _counters(found: dict[str, Any] | None) -> None:
    if found is None:
        return
    for before, after in ((BEFORE, found), (found, STATISTICS), (found, found)):
        to_json([of_model(before, after), batch_sizes(before, after), composing_models(before, after)])
        assert isinstance(restarted(before, after, 10), bool)


def read_json(data: bytes) -> None:
    """Any answer to any question over HTTP."""
    _questions(Heard(body=data))
    _refusing(lambda: Heard(body=data, status=403).require_model("m", WORKLOAD, "serve"))
    _refusing(lambda: Heard(body=data, status=500).register_memory("system", "r", {"offset": 0, "handle": b"x"}))
    statistics = Heard(body=data).statistics("m")
    if data == json.dumps({"model_stats": [STATISTICS]}).encode():
        assert statistics == STATISTICS
        assert of_model(BEFORE, STATISTICS)["server.queue"]["value"] == (4000 - 1000) / 2 / 1e6


def read_protobuf(data: bytes) -> None:
    """Any answer to any question over gRPC."""
    _questions(HeardOverGrpc(body=data))


def read_metrics(data: bytes) -> None:
    """Metrics in which the engine is looked for."""
    found = _placement(data)
    to_json(found.__dict__)
    if data == LABELS.encode():
        assert found == Placement("pytorch", "cuda:0", 'a "b"')


def _placement(data: bytes) -> Placement:
    return placement_in(data, Placement(None, None, None), "m")


def _protobufs() -> st.SearchStrategy[bytes]:
    statistics = service_pb2.ModelStatisticsResponse()
    model = statistics.model_stats.add(name="m", inference_count=3, execution_count=2)
    model.inference_stats.success.count = 3
    model.batch_stats.add(batch_size=2).compute_infer.count = 3
    config = service_pb2.ModelConfigResponse()
    config.config.backend = "onnxruntime"
    config.config.instance_group.add(kind=1, gpus=[0, 1])
    metadata = service_pb2.ModelMetadataResponse(name="m")
    for tensor in METADATA["inputs"]:
        metadata.inputs.add(**tensor)  # type: ignore[arg-type]
    ready = service_pb2.ModelReadyResponse(ready=True)
    documents = [found.SerializeToString() for found in (statistics, config, metadata, ready)]
    return st.builds(
        lambda document, newer: document + b"".join(newer), st.sampled_from(documents), st.lists(NEWER, max_size=2)
    )


METRICS = st.lists(st.sampled_from((LABELS, "# HELP x\n", "nv_x 1\n")), max_size=4).map("".join).map(str.encode)
METRIC_WORDS = (LABELS.encode(), b"\\", b"a" * 9000, b'="', b"servemark_engine_info{" + b"a" * 1000)
TREES = st.sampled_from([{"model_stats": [STATISTICS]}, METADATA, CONFIG, {"error": "no"}])

TARGETS = (
    Target("control_http", hostile_json(TREES), read_json, examples=160),
    Target("control_grpc", damaged(_protobufs()), read_protobuf, examples=40),
    Target("metrics", damaged(METRICS, METRIC_WORDS), read_metrics, examples=30),
)
