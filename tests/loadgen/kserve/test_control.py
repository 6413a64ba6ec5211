"""The control plane: what a server must be before it is loaded, and what its counters say afterwards."""

import copy
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from loadgen.kserve.control import MAX_COMPOSING, Control
from loadgen.kserve.grpc_call import GrpcAnswer
from loadgen.kserve.grpc_control import GrpcControl
from loadgen.kserve.grpc_messages import SERVICE, message
from servemark.errors import ServerError
from servemark.workload import Tensor, get
from tests.support.any_workload import any_workload
from tests.support.locust_run import server_of
from tests.support.raw_server import pages
from tests.support.told import Telling, told

TINY = get("ranking_tiny")
MODEL = "ranking_tiny_onnxruntime"
PATH = f"/v2/models/{MODEL}"


@contextmanager
def answering(answers: dict[str, Any]) -> Iterator[Control]:
    """A server with these answers by their paths."""
    with pages({path.encode(): answer for path, answer in answers.items()}) as (url, _):
        yield Control(url)


def metadata(**changes: Any) -> dict[str, Any]:
    tensors = {
        kind: [{"name": t.name, "datatype": t.datatype, "shape": [-1, *t.shape]} for t in group]
        for kind, group in (("inputs", TINY.inputs), ("outputs", TINY.outputs))
    }
    return {"name": MODEL, **tensors, **changes}


def test_the_right_model_is_accepted() -> None:
    with server_of(TINY) as server:
        control = Control(server.url)
        control.require_model(MODEL, TINY, "servemark serve it")
        assert control.placement(MODEL).engine == "golden"


INPUTS = metadata()["inputs"]
OUTPUTS = metadata()["outputs"]


@pytest.mark.parametrize(
    ("described", "words"),
    [
        (metadata(inputs=INPUTS[:1]), "inputs are user INT32[1], expected user INT32[1], seq INT32[5]"),
        (metadata(inputs=[*INPUTS, {"name": "more", "datatype": "FP32", "shape": [-1, 1]}]), "more FP32[1]"),
        (metadata(inputs=[INPUTS[0], INPUTS[1] | {"datatype": "INT64"}]), "seq INT64[5]"),
        (metadata(inputs=[INPUTS[0], INPUTS[1] | {"shape": [-1, 6]}]), "seq INT32[6]"),
        (metadata(outputs=OUTPUTS[:1]), "outputs are"),
        (metadata(outputs=[]), "outputs are none"),
        (metadata(inputs=7), "cannot be read"),
        (metadata(inputs=[{"title": "user"}]), "cannot be read"),
        ([1], "no JSON object"),
        (b"<html>", "no JSON object"),
    ],
)
def test_a_model_that_is_another_is_refused(described: Any, words: str) -> None:
    with answering({f"{PATH}/ready": {}, PATH: described}) as control, pytest.raises(ServerError) as error:
        control.require_model(MODEL, TINY, "servemark serve it")
    assert words in str(error.value)


def test_more_outputs_than_read_are_accepted() -> None:
    more = metadata(outputs=[*OUTPUTS, {"name": "more", "datatype": "FP32", "shape": ["-1", "3"]}])
    with answering({f"{PATH}/ready": {}, PATH: more}) as control:
        assert control.require_model(MODEL, TINY, "") == []


def test_without_batches_the_whole_shapes_are_compared() -> None:
    x, y = Tensor("x", "FP32", (100, 6)), Tensor("y", "FP32", (100, 4))
    alone = any_workload([x], [y], max_batch=0, served=False)
    tensors = {
        f"{name}puts": [{"name": t.name, "datatype": "FP32", "shape": list(t.shape)}]
        for name, [t] in (("in", alone.inputs), ("out", alone.outputs))
    }
    with answering({f"{PATH}/ready": {}, PATH: metadata(**tensors)}) as control:
        assert control.require_model(MODEL, alone, "") == []


def test_one_value_per_sample_may_have_a_dimension_of_one() -> None:
    one = dataclasses.replace(TINY, inputs=(Tensor("t", "FP32", ()),), outputs=(Tensor("label", "INT64", ()),))
    for shape, widened in (([-1], []), ([-1, 1], ["t"])):
        tensors = {
            "inputs": [{"name": "t", "datatype": "FP32", "shape": shape}],
            "outputs": [{"name": "label", "datatype": "INT64", "shape": shape}],
        }
        with answering({f"{PATH}/ready": {}, PATH: metadata(**tensors)}) as control:
            assert control.require_model(MODEL, one, "") == widened


def test_a_server_without_the_model_names_the_command() -> None:
    with answering({}) as control, pytest.raises(ServerError, match="does not serve") as error:
        control.require_model(MODEL, TINY, "servemark serve it")
    assert "`servemark serve it`" in str(error.value)


CPU = [{"kind": "KIND_CPU"}]
GPUS = [{"kind": "KIND_GPU", "gpus": [0, 1]}]


@pytest.mark.parametrize(
    ("config", "placement"),
    [
        ({"backend": "onnxruntime", "instance_group": CPU}, ("onnxruntime", "cpu", None)),
        ({"backend": "onnxruntime", "instance_group": GPUS}, ("onnxruntime", "cuda:0,cuda:1", None)),
        ({"backend": "pytorch", "instance_group": CPU}, ("pytorch", "cpu", None)),
        ({"backend": "other"}, ("other", None, None)),
        ({}, (None, None, None)),
        ({"instance_group": [5]}, (None, None, None)),
        ({"instance_group": {"kind": "KIND_CPU"}}, (None, None, None)),
        ({"instance_group": [{"kind": ["KIND_CPU"]}]}, (None, None, None)),
        ({"instance_group": [{"kind": "KIND_GPU", "gpus": 5}]}, (None, None, None)),
        ({"backend": {"name": "x"}}, ("{'name': 'x'}", None, None)),
    ],
)
def test_placement(config: dict[str, Any], placement: tuple[str | None, ...]) -> None:
    with answering({f"{PATH}/config": config}) as control:
        found = control.placement(MODEL)
    assert (found.engine, found.device, found.provider) == placement
    # Kept as it is, where its engine and device can be read.
    assert found.model_config == (config if any(placement) else None)


@pytest.mark.parametrize(
    "answer", [None, {}, {"model_stats": []}, {"model_stats": [{"name": "m"}]}, {"model_stats": 1}, [1]]
)
def test_a_server_without_triton_statistics(answer: Any) -> None:
    with answering({} if answer is None else {f"{PATH}/stats": answer}) as control:
        assert control.statistics(MODEL) is None


WHOLE = {
    "inference_count": 5,
    "execution_count": 5,
    "inference_stats": {
        key: {"count": 5, "ns": 7} for key in ("success", "queue", "compute_input", "compute_infer", "compute_output")
    },
    "batch_stats": [{"batch_size": 1, "compute_infer": {"count": 5, "ns": 7}}],
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["inference_stats"], {"success": {"count": 5, "ns": 7}}),
        (["inference_stats", "queue", "ns"], float("nan")),
        (["inference_stats", "queue", "ns"], -1),
        (["inference_stats", "queue", "ns"], "7"),
        (["inference_stats", "queue", "ns"], 10**300),
        (["inference_stats", "compute_infer"], [5, 7]),
        (["inference_count"], 5.5),
        (["execution_count"], None),
        (["batch_stats"], {"1": 5}),
        (["batch_stats"], [{"batch_size": 1}]),
        (["batch_stats"], 5),
    ],
)
def test_statistics_of_another_shape_are_none(path: list[str], value: Any) -> None:
    changed = copy.deepcopy(WHOLE)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with answering({f"{PATH}/stats": {"model_stats": [WHOLE]}}) as control:
        assert control.statistics(MODEL) == WHOLE
    with answering({f"{PATH}/stats": {"model_stats": [changed]}}) as control:
        assert control.statistics(MODEL) is None


@pytest.mark.parametrize("config", [{"model_transaction_policy": [1]}, {"model_transaction_policy": {}}, [1]])
def test_a_policy_of_another_shape_says_nothing(config: Any) -> None:
    with answering({f"{PATH}/config": config}) as control:
        assert control.decoupled(MODEL) is False


def test_an_ensemble_names_its_models_also_those_of_ensembles_within() -> None:
    def steps(*names: str) -> dict[str, Any]:
        return {"ensemble_scheduling": {"step": [{"model_name": name, "model_version": "-1"} for name in names]}}

    outer = {"ensemble_scheduling": {"step": [{"model_name": "inner"}, {"model_name": "last", "model_version": 3}]}}
    answers = {"/v2/models/outer/config": outer, "/v2/models/inner/config": steps("a", "b", "inner")}
    with answering({**answers, "/v2/models/last/versions/3/config": steps("a")}) as control:
        assert control.composing_models("outer") == {"inner": "", "last": "3", "a": "", "b": ""}
        assert control.composing_models("a") == {}
    many = steps(*(f"m{number}" for number in range(5_000)))
    with answering({"/v2/models/many/config": many}) as control:
        assert len(control.composing_models("many")) == MAX_COMPOSING
    with answering({"/v2/models/odd/config": {"ensemble_scheduling": [7]}}) as control:
        assert control.composing_models("odd") == {}


def test_of_several_versions_the_highest_is_the_one_that_counts() -> None:
    with server_of(TINY) as server:
        stats = Control(server.url)._document(MODEL, "stats")["model_stats"][0]
    listed = [{**stats, "version": version} for version in ("2", "10", "x")]
    with answering({f"{PATH}/stats": {"model_stats": listed}}) as control:
        found = control.statistics(MODEL)
    assert found is not None
    assert found["version"] == "10"


def nobody_listens(*_: Any, **__: Any) -> Any:
    raise ConnectionRefusedError


@pytest.mark.parametrize(
    ("url", "serves", "advice"),
    [
        ("http://127.0.0.1:9", True, "fix: start one with `servemark serve it --http-port 9`"),
        ("grpc://127.0.0.1:9", True, "`servemark serve it --grpc-port 9`"),
        ("grpc+unix:/no_such.sock", True, "start the server, or correct"),
        ("http://127.0.0.1:9", False, "fix: start your server, or correct"),
        ("http://127.0.0.1", True, "fix: --url with the server's port, Triton's is 8000; or start one with"),
    ],
)
def test_the_advice_names_the_server_that_was_looked_for_and_a_port_where_the_url_has_none(
    url: str, serves: bool, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loadgen.kserve.control.serves_here", lambda: serves)
    monkeypatch.setattr("loadgen.kserve.control.ask", nobody_listens)
    with pytest.raises(ServerError, match=r"no server answers at .*") as refused:
        (GrpcControl if url.startswith("grpc") else Control)(url).require_model(MODEL, TINY, "servemark serve it")
    assert advice in str(refused.value)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_name_that_is_not_known_is_not_told_to_start_a_server(scheme: str) -> None:
    control = (Control if scheme == "http" else GrpcControl)(f"{scheme}://no-such-host.invalid:8000")
    with pytest.raises(ServerError, match=r"no server answers at .*//no-such-host.invalid:8000 \(") as refused:
        control.require_model(MODEL, TINY, "servemark serve it")
    assert refused.value.fix == "correct the host in --url; this machine must know its name"


READY = f"/{SERVICE}/ModelReady"


@pytest.mark.parametrize(("answers", "fix"), [
    ({}, "--endpoint-type where the server does not speak KServe v2"),
    ({READY: told("grpc_not_found")}, "name another"),
    ({READY: told(message("ModelReadyResponse", ready=False).SerializeToString())}, "name another"),
])  # fmt: skip
def test_a_server_of_another_protocol_over_grpc_has_its_own_remedy(
    answers: dict[str, GrpcAnswer], fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GrpcControl, "first_call", Telling(answers=answers).first_call)
    with pytest.raises(ServerError, match=rf"(?s)grpc://told:1 does not serve 'm'\n.*fix: {fix}"):
        GrpcControl("grpc://told:1").require_ready("m", "name another", start="start it")
