"""A workload made of a server's own words, over HTTP and gRPC, and driven; and freed memory that targets keep."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadgen.targets.open import open_target, workload_of
from servemark.errors import OptionError, ServerError
from servemark.figures.registry import value_of
from servemark.workload import Tensor, get
from tests.golden.grpc import GoldenGrpc
from tests.golden.load import answers
from tests.golden.server import GoldenServer
from tests.support.load_config import config, of_server, request_of
from tests.support.locust_run import run
from tests.support.result_checks import counted_result, run_here
from tests.support.web import forked_workers

NAME = "org/any model"
INPUTS = ("x/1:0:FP32:-1,4", "ids:INT64:3", "text:BYTES:2", "half:BF16:2", "mask:BOOL:1")


@pytest.mark.parametrize("batch", [8, 0])
def test_every_datatype_with_and_without_batches(batch: int) -> None:
    tensors = {"inputs": [text.replace("x/1:0", "x/1") for text in INPUTS], "optional": ["mask"]}
    outputs = [f"o{text.replace('x/1:0', 'x/1')}" for text in INPUTS[:4]]
    with GoldenServer(model=NAME, **tensors, outputs=outputs, max_batch_size=batch) as server:
        flags = ["--model-version", "1", "--shape", "x/1:5,4", "--input-range", "ids:0:30521"]
        load = of_server(server.url, *flags, *(["--batch-size", "3"] if batch else []), model=NAME)
        assert load.workload.inputs[0] == Tensor("x/1", "FP32", (-1, 4))
        assert load.workload.inputs[-1].optional
        assert (load.model, load.workload.max_batch) == (NAME, batch)
        sent = answers(load)
        log = server.log()
    assert {*sent.kinds} == {"ok"}, sent.outcomes[0].message
    assert len({entry["crc32"] for entry in log["requests"]}) == min(8, len(log["requests"]))
    assert "POST /v2/models/org%2Fany%20model/versions/1/infer" in log["paths"]
    assert {entry["batch"] for entry in log["requests"]} == {3 if batch else 1}


def test_over_grpc_without_a_configuration() -> None:
    with GoldenGrpc(model=NAME) as server:
        load = of_server(server.url, model=NAME)
        assert load.workload.inputs == (Tensor("INPUT0", "FP32", (64,)),)
        assert {*answers(load).kinds} == {"ok"}


def test_a_whole_run_by_two_workers_is_checked_by_validation_data(tmp_path: Path) -> None:
    steps = [{"x": [float(n), 1.0], "text": [f"row {n}"]} for n in range(3)]
    right = [{"y": step["x"], "said": step["text"]} for step in steps]
    data = tmp_path / "in.json"
    data.write_text(json.dumps({"data": [steps], "validation_data": [right]}))
    tensors = {"inputs": ["x:FP32:-1", "text:BYTES:1"], "outputs": ["y:FP32:-1", "said:BYTES:1"]}
    flags = ["--model-name", NAME, "--input-data", str(data), "--duration", "0.6", "--warmup", "0.1", "--users", "2"]
    with GoldenServer(model=NAME, **tensors, delay_s=0.005) as server:
        done = run("any_model", *flags, "--url", server.url, "--out", str(tmp_path / "out"), *forked_workers(2))
        received = server.requests()
    result = counted_result(tmp_path / "out", len(received))
    assert (result["workload"], value_of(result, "errors.count")) == (NAME, 0), done.stderr
    agreement = [value_of(result, f"outputs.{name}") for name in ("samples", "max_abs_error", "top1_agreement")]
    assert agreement == [3, 0, 1]


def test_a_wrong_answer_is_told_from_validation_data(tmp_path: Path) -> None:
    data = tmp_path / "in.json"
    data.write_text(json.dumps({"data": [{"x": [1.0]}], "validation_data": [{"y": [2.0]}]}))
    flags = ["--input-data", str(data), "--duration", "0.3", "--warmup", "0", "--out", str(tmp_path / "out")]
    with GoldenServer(model="m", inputs=["x:FP32:1"], outputs=["y:FP32:1"]) as server:
        result, text = run_here(of_server(server.url, *flags))
    assert result["verdict"]["exit_code"] == 2
    assert "output 'y' differs from validation_data's" in text
    assert "correct the file, or the model" in text
    assert "answers checked, max error 1" in text
    assert "golden request" not in text


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--shape", "y:1"], "--shape names 'y', which is not an input of m"),
        (["--shape", "x:3"], r"--shape x:3 does not fit m's x FP32\[-1, 4\]"),
        (["--batch-size", "9"], "above m's maximum of 8"),
        (["--model-version", "7"], r"(?s)does not serve 'm' in version 7\n.*--model-version, or leave it out"),
    ],
)
def test_what_is_refused_before_a_request(flags: list[str], words: str) -> None:
    with (
        GoldenServer(model="m", inputs=["x:FP32:-1,4"], max_batch_size=8) as server,
        pytest.raises((OptionError, ServerError), match=words),
    ):
        of_server(server.url, *flags)


def test_a_name_that_is_no_workload_needs_a_server() -> None:
    options = request_of("resnet55")
    with pytest.raises(OptionError, match="unknown workload 'resnet55'") as error:
        workload_of(options)
    assert "--url URL where a server has this model" in str(error.value.fix)
    with pytest.raises(OptionError, match="unknown workload 'resnet55'") as error:
        get("resnet55")
    assert "--url" not in str(error.value.fix)  # not every command has it
    with pytest.raises(OptionError, match="no model is named"):
        workload_of(request_of(""))


def test_a_server_without_binary_tensors_gets_json() -> None:
    tensors = {"inputs": ["x:FP32:4", "text:BYTES:1", "n:UINT64:1"], "outputs": ["y:FP32:4", "t:BYTES:1", "m:UINT64:1"]}
    with GoldenServer(model="m", **tensors, configuration=False, json_only=True) as server:
        load = of_server(server.url)
        target = open_target(load)
        target.prepare()
        assert {*answers(load).kinds} == {"ok"}
        assert server.log()["rejected"] == 0
        forced = answers(of_server(server.url, "--input-tensor-format", "binary"))
    formats = target.config["input_tensor_format"], target.config["output_tensor_format"]
    assert formats == ("json", "json")
    assert {*forced.kinds} == {"http_500"}


def test_a_server_that_only_infers_is_driven_in_json() -> None:
    declared = ["--input", "x:FP32:-1,4", "--output", "y:FP32:-1,4"]
    with GoldenServer(model="m", inputs=["x:FP32:4"], outputs=["y:FP32:4"], infer_only=True, json_only=True) as server:
        assert {*answers(of_server(server.url, *declared)).kinds} == {"ok"}
        assert {*answers(of_server(server.url, *declared, model="n")).kinds} == {"http_404"}
        with pytest.raises(ServerError, match="does not serve 'm'"):
            of_server(server.url)
    with pytest.raises(ServerError, match="no server answers"):
        of_server(server.url, *declared)


@pytest.mark.parametrize(("inputs", "outputs"), [("json", "binary"), ("binary", "json"), ("json", "json")])
def test_json_where_it_is_asked_for(inputs: str, outputs: str) -> None:
    flags = ["--input-tensor-format", inputs, "--output-tensor-format", outputs]
    with GoldenServer(model="m", inputs=["x:FP32:4"], outputs=["y:FP32:4"]) as server:
        assert {*answers(of_server(server.url, *flags)).kinds} == {"ok"}
    with pytest.raises(OptionError, match="JSON tensors are for HTTP"):
        config("ranking_tiny", "--url", "grpc://h:1", *flags)


def test_what_fails_on_every_request_fails_once_with_the_server_s_words(tmp_path: Path) -> None:
    """A server's own model; of a built-in one: tests/loadgen/measurement/test_probe.py."""
    words = "m fails at a first request, http_500: HTTP 500: golden error on request"
    with GoldenServer(model="m", inputs=["x:FP32:1"], error_every=1) as server:
        with pytest.raises(ServerError, match=words):
            run_here(of_server(server.url, "--duration", "0.3", "--out", str(tmp_path)))
        assert len(server.requests()) == 3
    assert not list(tmp_path.iterdir())


def test_tensors_are_declared_for_a_server_without_metadata() -> None:
    tensors = {"inputs": ["x:FP64:4", "ids:INT64:2"], "outputs": ["y:FP64:4", "said:INT64:2"]}
    declared = ["--input", "x:FP64:-1,4", "--input", "ids:INT64:-1,2"]
    declared += ["--output", "y:FP64:-1,4,said:INT64:-1,2"]
    with GoldenServer(model="m", **tensors, metadata=False, configuration=False) as server:
        with pytest.raises((OptionError, ServerError), match="--input NAME:FP32:-1,4 --output NAME:FP32:-1,3"):
            of_server(server.url)
        load = of_server(server.url, "--batch-size", "3", *declared)
        assert {*answers(load).kinds} == {"ok"}
        assert {entry["batch"] for entry in server.requests()} == {3}
        short = of_server(server.url, "--input", "x:FP64:4,ids:INT64:2", "--output", declared[-1])
        assert short.workload.max_batch == 0
        with pytest.raises(
            OptionError, match="--input and --output describe a model of the server's, and ranking_tiny"
        ):
            config("ranking_tiny", "--url", server.url, *declared, lookup=workload_of)
        with pytest.raises(ServerError, match="'m' as declared: input 'x' has the datatype 'FLOAT'"):
            of_server(server.url, "--input", "x:FLOAT:4", "--output", "y:FP32:4")


LARGE, RESPONSES = 602_112, 200
SCRIPT = f"""
import resource
from loadgen.targets.open import tune_malloc

def respond():
    pieces = [bytes(60_000) for _ in range(10)]
    return b"".join([*pieces, bytes({LARGE} - 600_000)])

assert tune_malloc()
for _ in range(20):
    respond()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({RESPONSES}):
    respond()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_freed_memory_is_kept_so_that_large_responses_fault_no_new_pages_in() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True, timeout=120)
    assert int(done.stdout) < RESPONSES  # a response has 147 pages
