"""The gRPC path against a real Triton: unary and streaming, small and large, right and wrong."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from loadgen.inputs.sources import samples_of
from loadgen.kserve.control import Control
from loadgen.kserve.grpc_control import GrpcControl
from loadgen.kserve.grpc_inference import encode_request
from loadgen.measurement.probe import answer_each
from loadgen.sut.channel import Outcome, Payload
from loadgen.targets.open import open_target
from servemark.errors import ServerError
from servemark.figures.registry import count_of, value_of
from servemark.workload import Tensor, Workload
from servers import Server
from tests.golden.load import constant_ns, tensor
from tests.support.grpc_load import GrpcLoad
from tests.support.load_config import of_server
from tests.support.locust_run import accounted, run, the_result
from tests.support.result_checks import run_here
from tests.support.small_models import affine
from tests.support.stateful_models import MODELS, write_python_models
from tests.support.triton import (
    IDENTITY_LOCUSTFILE,
    LastingTriton,
    again_after_a_crash,
    copy_identity,
    needs_triton,
)

pytestmark = needs_triton

SCORES = (Tensor("SCORES", "FP32", (3,)), Tensor("TOTAL", "FP32", (1,)))
FloatArray = npt.NDArray[np.float32]

both = pytest.mark.parametrize("streaming", [False, True], ids=["unary", "streaming"])


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("model_repo")
    affine(root, "onnxruntime")
    copy_identity(root)
    write_python_models(root)
    return root


@pytest.fixture(scope="module")
def triton(repository: Path) -> Iterator[LastingTriton]:
    with LastingTriton(repository, ["affine_onnxruntime", "identity", *MODELS]) as triton:
        yield triton


@pytest.fixture
def server(triton: LastingTriton) -> Server:
    return triton.server()


def port_of(server: Server) -> int:
    return int(server.grpc.rpartition(":")[2])


def served(server: Server, model: str) -> int:
    statistics = Control(f"http://{server.http}").statistics(model)
    assert statistics is not None
    return int(statistics["inference_stats"]["success"]["count"])


@both
@again_after_a_crash
def test_every_answer_is_triton_s_and_every_request_is_counted(triton: LastingTriton, streaming: bool) -> None:
    server = triton.server()
    before = served(server, "identity")
    load = GrpcLoad(port_of(server), streaming=streaming, model="identity", connect=16).closed(16, 0.2)
    assert load.kinds == {"ok": served(server, "identity") - before}
    arrays = load.arrays()
    # The payloads go round in the order in which requests were begun, which is that of their schedule.
    for number, outcome in enumerate(sorted(load.outcomes, key=lambda o: o.scheduled)):
        assert outcome.response is not None
        assert outcome.payload.request[-64 * 4 :] == arrays[number % len(arrays)].tobytes()
        assert outcome.payload.request.endswith(outcome.response.arrays([tensor(64)])["OUTPUT0"].tobytes())


def affine_request(x: FloatArray, model: str = "affine_onnxruntime", name: str = "X") -> bytes:
    return encode_request(model, {name: x}, SCORES, {name: "FP32"})


@both
@pytest.mark.parametrize(
    ("request_bytes", "status", "words"),
    [
        (affine_request(np.zeros((1, 8), "f4"), model="nowhere"), "grpc_not_found", "unknown model: 'nowhere'"),
        (affine_request(np.zeros((1, 9), "f4")), "grpc_invalid_argument", "unexpected shape for input 'X'"),
        (affine_request(np.zeros((9, 8), "f4")), "grpc_invalid_argument", "batch-size must be <= 8"),
        (affine_request(np.zeros((1, 8), "f4"), name="Y"), "grpc_invalid_argument", "Y"),
    ],
    ids=["model", "shape", "batch", "input"],
)
def test_tritons_own_message_is_shown(
    server: Server, streaming: bool, request_bytes: bytes, status: str, words: str
) -> None:
    load = GrpcLoad(port_of(server), streaming=streaming, requests=itertools.repeat(Payload(request_bytes)))
    load.open(constant_ns(50, 4))
    assert load.kinds == {"grpc_stream_error" if streaming else status: 4}
    assert load.outcomes[0].response is not None
    assert words in load.outcomes[0].response.message()


def test_the_control_plane_says_the_same_over_grpc(server: Server) -> None:
    over_http, over_grpc = Control(f"http://{server.http}"), GrpcControl(f"grpc://{server.grpc}")
    for model in ("affine_onnxruntime", "identity", "decoupled"):
        assert over_grpc.placement(model) == over_http.placement(model)
        assert (over_http.placement(model).model_config or {}).keys() >= {"input", "output", "optimization"}
        assert over_grpc.decoupled(model) == over_http.decoupled(model) == (model == "decoupled")
        by_http, by_grpc = over_http.statistics(model), over_grpc.statistics(model)
        assert by_http is not None
        assert by_grpc is not None
        assert by_grpc["inference_count"] == by_http["inference_count"]
        assert by_grpc["inference_stats"]["queue"] == by_http["inference_stats"]["queue"]
        assert [b["compute_infer"] for b in by_grpc["batch_stats"]] == [
            b["compute_infer"] for b in by_http["batch_stats"]
        ]
    named = cast(Workload, SimpleNamespace(served=False))
    with pytest.raises(ServerError, match="does not serve 'nowhere'"):
        over_grpc.require_model("nowhere", named, "servemark serve x")
    with pytest.raises(ServerError, match="no server answers"):
        GrpcControl(f"grpc://{server.http}").require_model("identity", named, "")


def judged(text: str, result: Any, server: Server, model: str, before: int) -> None:
    """Check what a whole run says of the server, and that nothing of it is lost."""
    assert (result["protocol"], result["engine"], result["device"]) == ("grpc", "python", "cpu")
    assert result["resolved"]["url"] == f"grpc://{server.grpc}"
    assert value_of(result, "errors.count") == 0, text
    assert value_of(result, "server.queue") is not None
    inside, outside = (count_of(result, tag) for tag in ("requests.answered", "generator.requests_outside_interval"))
    assert inside + outside == served(server, model) - before
    assert inside > 0


@again_after_a_crash
def test_a_whole_run(triton: LastingTriton, tmp_path: Path) -> None:
    server = triton.server()
    before = served(server, "identity")
    flags = ["--protocol", "grpc", "--concurrency", "4", "--duration", "0.5"]
    result, text = measured(server.grpc, "identity", tmp_path / str(port_of(server)), *flags)
    judged(text, result, server, "identity", before)
    assert result["resolved"]["streaming"] is False


@again_after_a_crash
def test_a_whole_run_over_a_stream_whose_sequences_keep_their_order(triton: LastingTriton, tmp_path: Path) -> None:
    """The model refuses what is not in order."""
    server = triton.server()
    before = served(server, "stateful")
    flags = ["--model-name", "stateful", "--sequence-length", "5", "--num-of-sequences", "3", "--request-rate", "100"]
    # Its own ids: what the other run left open at its end is open still.
    flags += ["--start-sequence-id", "10000", "--streaming", "--duration", "1", "--warmup", "0.2"]
    out = tmp_path / str(port_of(server))
    done = run(IDENTITY_LOCUSTFILE, *flags, "--url", f"grpc://{server.grpc}", "--out", str(out))
    result = the_result(out)
    judged(done.stderr, result, server, "stateful", before)
    assert result["resolved"]["streaming"] is True
    sequences(result, done.stdout)


def test_sequences_keep_their_order_over_http(server: Server, tmp_path: Path) -> None:
    flags = ["--sequence-length", "5", "--concurrency", "3", "--duration", "0.3"]
    result, text = measured(f"http://{server.http}", "stateful", tmp_path, *flags)
    assert value_of(result, "errors.count") == 0, text
    sequences(result, text)


def sequences(result: Any, text: str) -> None:
    """Check the figures of three sequences of 5 requests at a time."""
    assert [value_of(result, f"sequence.{name}") for name in ("length", "in_flight", "broken")] == [5, 3, 0]
    assert 0 < count_of(result, "sequence.completed") <= accounted(result) / 5
    assert result["figures"]["sequence.mean"]["n"] > 0
    assert "of 5 requests, at most 3 in flight" in text
    assert "answers.rate" not in result["figures"]


def measured(url: str, model: str, out: Path, *flags: str) -> tuple[Any, str]:
    return run_here(of_server(url, "--warmup", "0.1", "--out", str(out), *flags, model=model))


def test_several_answers_to_a_request_have_figures_of_their_own(server: Server, tmp_path: Path) -> None:
    flags = ["--streaming", "--concurrency", "2", "--duration", "1"]
    result, text = measured(f"grpc://{server.grpc}", "decoupled", tmp_path, *flags)
    figures = result["figures"]
    assert figures["errors.count"]["value"] == 0, text
    requests = figures["requests.answered"]["value"]
    assert figures["answers.per_request"]["value"] == 3
    counts = (figures["first_answer.mean"]["n"], figures["between_answers.mean"]["n"])
    assert counts == (requests, 2 * requests)
    # The model waits so long between its answers, whatever else the machine does.
    assert figures["between_answers.max"]["value"] >= 5
    assert figures["first_answer.mean"]["value"] < figures["latency.mean"]["value"]
    assert figures["answers.rate"]["value"] > figures["throughput.requests"]["value"]
    assert "between answers" in text
    assert "sequence.completed" not in figures


@pytest.mark.parametrize("place", ["http", "grpc"])
def test_a_parameter_of_the_requests_arrives(server: Server, place: str) -> None:
    url = f"{place}://{getattr(server, place)}"
    load = of_server(url, "--request-parameter", "scale:3:int", model="scaled")
    target = open_target(load)
    target.prepare()
    seen: list[Outcome] = []
    requests = target.payloads(None)
    answer_each(target, requests, 1, 1, timeout_s=30, on_outcome=seen.append, on_tick=lambda _: None)
    [outcome] = seen
    assert outcome.error is None
    assert outcome.response is not None
    answered = outcome.response.arrays(load.workload.outputs)["OUTPUT0"]
    np.testing.assert_array_equal(answered[0], 3 * next(samples_of(load))["INPUT0"].astype(np.float32))
