"""A request is the same after JSON, a command line, a file and a result; its rules hold however it is made."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings

from loadgen.load.load_config import Order
from servemark.documents.files import read_request, text_of
from servemark.documents.flags import options_of, request_of
from servemark.documents.live import Exporter, TimedCommand, exporters_of, timed_commands_of
from servemark.documents.load import ClosedLoop, ConstantRate, Distribution, MaxRate, Trace
from servemark.documents.request import Inputs, Objectives, RunRequest, changed
from servemark.documents.server import Server
from servemark.errors import OptionError
from servemark.results import directory
from tests.servemark.documents.strategies import requests
from tests.support.command_line import Servemark
from tests.support.load_config import arguments, parse
from tests.support.measured import evenly, load_result


@given(requests())
def test_json_and_a_command_line_make_the_same_request(request: RunRequest) -> None:
    assert msgspec.json.decode(msgspec.json.encode(request), type=RunRequest) == request
    assert msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(request))), RunRequest) == request

    assert parse(arguments(request)) == request
    assert request_of(options_of(request)) == request


@given(drawn=requests())
@settings(max_examples=30)
def test_a_file_makes_the_same_request(drawn: RunRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "run.yaml"
    path.write_text(text_of(drawn))
    assert read_request(path).request == drawn


@given(requests())
@settings(max_examples=20)
def test_the_schema_describes_every_request(request: RunRequest) -> None:
    described = jsonschema.Draft202012Validator(msgspec.json.schema(RunRequest))
    document = json.loads(msgspec.json.encode(request))
    assert described.is_valid(document)
    assert not described.is_valid(document | {"server": 7})
    assert not described.is_valid(document | {"speed": 2})


LARGE = 2**53 + 1


def test_whole_numbers_are_the_same_in_flags_files_and_documents(tmp_path: Path) -> None:
    flags = ["--seed", f"{LARGE}", "--input-range", f"x:{LARGE}:{LARGE}", "--sequence-length", "2"]
    flags += ["--start-sequence-id", f"{LARGE}", "--url", "http://h:1", "--request-parameter", f"a:{LARGE}:int"]
    found = parse(flags)
    assert (found.inputs.seed, found.server.start_sequence_id) == (LARGE, LARGE)
    assert (found.inputs.input_range["x"], found.server.request_parameters["a"]) == ((LARGE, LARGE), LARGE)
    server = f"url: http://h:1, sequence_length: 2, start_sequence_id: {LARGE}, request_parameters: {{a: {LARGE}}}"
    inputs = f"seed: {LARGE}, input_range: {{x: [{LARGE}, {LARGE}]}}"
    (tmp_path / "run.yaml").write_text(f"inputs: {{{inputs}}}\nserver: {{{server}}}")
    assert read_request(tmp_path / "run.yaml").request == found
    assert msgspec.json.decode(msgspec.json.encode(found), type=RunRequest) == found
    assert parse(arguments(found)) == found


@pytest.mark.parametrize(
    ("url", "first", "words"),
    [
        ("http://h:1", 2**64 - 1 - 2**32, None),
        ("http://h:1", 2**64 - 2**32, "a run's other ids would pass 18446744073709551615, the greatest over http"),
        ("http://h:1", 2**64, "--start-sequence-id 18446744073709551616 is above 18446744073709551615"),
        ("grpc://h:1", 2**63 - 1 - 2**32, None),
        ("grpc://h:1", 2**63 - 2**32, "a run's other ids would pass 9223372036854775807, the greatest over grpc"),
    ],
)
def test_ids_of_sequences_have_room_for_those_that_follow(url: str, first: int, words: str | None) -> None:
    group = {"url": url, "sequence_length": 2, "start_sequence_id": first}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in group.items()]
    made: list[Callable[[], RunRequest]] = [
        lambda: parse(flags),
        lambda: RunRequest(server=Server(url=url, sequence_length=2, start_sequence_id=first)),
        lambda: msgspec.convert({"server": group}, RunRequest),
    ]
    for make in made:
        if words is None:
            assert make().server.start_sequence_id == first
            continue
        with pytest.raises((OptionError, msgspec.ValidationError), match=words):
            make()


def test_a_rerun_makes_the_request_of_a_result(servemark: Servemark, tmp_path: Path, stopped: list[RunRequest]) -> None:
    """Every request that a result can keep is asked for again exactly."""
    result = load_result(("--request-rate", "40"), evenly(40, 15, 0.02))

    @given(requests())
    @settings(max_examples=25, deadline=None)
    def check(drawn: RunRequest) -> None:
        request = changed(drawn, workload="ranking_tiny", engine="pytorch", imports_dir="", workload_files=())
        request = changed(request, language_model="", lm_alpha=None, lm_beta=None, beam_width=None)
        if isinstance(request.load, MaxRate):
            request = changed(request, slo="p99:20")
        directory.write(tmp_path, {**result, "request": msgspec.to_builtins(request)})
        stopped.clear()
        servemark("rerun", str(tmp_path), "--trust")
        load = request.load.at(1.0) if isinstance(request.load, MaxRate) else request.load
        assert stopped == [changed(request, load=load)]

    check()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--gamma-cv", "2", "--request-rate", "5"], "--gamma-cv belongs to gamma arrivals"),
        (["--gamma-cv", "0", "--request-rate", "5", "--request-distribution", "gamma"], "must be at least 0.1"),
        (["--trace-speed", "2"], "--trace-speed is not for this load"),
        (["--stages", "10:100,"], "'' is not SECONDS:RATE"),
        (["--stages", "0:100"], "--stages: seconds 0 must be above 0"),
        (["--stages", "10:fast"], "--stages: rate 'fast' is not a number"),
        (["--stages", "10:0,5:0"], "sends nothing"),
        (["--stages", ",".join(["1:1"] * 51)], "51 stages, at most 50"),
        (["--stages", "1:1", "--request-rate", "5"], "--request-rate and --stages exclude each other"),
        (["--metrics-grace", "5"], "--metrics-grace is for the port"),
        (["--otlp-sample", "5"], "nowhere to send its spans"),
        (["--power-boundary", "pdu"], "--power-boundary needs --power-command"),
        (["--lm-alpha", "1"], "--lm-alpha has no language model"),
        (["--streaming"], "--streaming is for gRPC"),
        (["--input-tensor-format", "json", "--protocol", "grpc"], "JSON tensors are for HTTP"),
        (["--sequence-length", "3", "--shared-memory", "system"], "--sequence-length excludes"),
        (["--sampling-rate", "1000"], "--sampling-rate 1000 is above 100"),
        (["--slo", "p99"], "is not pXX:LIMIT"),
        (["--slo", "recovery:5"], "--slo recovery is that from a command"),
        (["--slo", "cold-start:5"], "--slo cold-start is about a server's start"),
        (
            ["--request-cancellation", "5%:200ms", "--otlp", "http://127.0.0.1:4318", "--otlp-sample", "1"],
            "--request-cancellation excludes --otlp-sample",
        ),
        (["--cold-start", "--warmup", "3"], "--cold-start excludes --warmup"),
        (["--cold-start", "--at", "3:true"], "--cold-start excludes --at"),
        (["--cold-start", "--max-rate", "--slo", "p99:20"], "--cold-start excludes --max-rate"),
        (["--cold-start", "--workers", "2"], "--cold-start excludes --workers"),
        (["--cold-start", "--explain"], "--cold-start excludes --explain"),
        (["--cold-start", "--in-process"], "--in-process has no server"),
        (["--at", "3:true", "--max-rate", "--slo", "p99:20"], "--at excludes --max-rate"),
        (["--abort-on", "cold-start:5"], "--abort-on has no cold-start"),
        (["--abort-on", "p99"], "--abort-on 'p99' is not pXX:LIMIT, service_pXX:LIMIT, or errors:SHARE"),
        (["--max-error-rate", "2"], "--max-error-rate 2 is above 1"),
        (["--shape=3,224"], "--shape '3' cannot be read"),
        (["--shape=x:3.5"], "--shape 3.5 is not a whole number"),
        (["--shape=x:-1"], "--shape -1 must be at least 0"),
        (["--shape=:3"], "--shape ':3' cannot be read"),
        (["--input=x:4"], "--input 'x:4' cannot be read"),
        (["--input=x:FP32:-2"], "--input -2 must be at least -1"),
        (["--input=x:FP32:4"], "needs its inputs and its outputs"),
        (["--input-range=ids:5"], "cannot be read"),
        (["--input-range=ids:0:5,6"], "cannot be read"),
        (["--input-range=ids:a:5"], "--input-range 'a' is not a number"),
        (["--input-range=ids:9:5"], "ends before it begins"),
        (["--request-parameter=max_tokens:256"], "'max_tokens:256' is not NAME:VALUE:TYPE"),
        (["--request-parameter=a:1:int,b:2:long"], "'b:2:long' is not NAME:VALUE:TYPE"),
        (["--request-parameter=a:yes:bool"], "'yes' is unknown"),
        (["--request-parameter=a:1.5:int"], "'1.5' is not a whole number of 64 bits"),
        (["--request-parameter=a:9223372036854775808:int"], "not a whole number of 64 bits"),
        (["--request-parameter=sequence_id:5:int"], "is what --sequence-length sends"),
        (["--request-parameter=a:1:int", "--shared-memory", "system"], "not in shared memory"),
        (["--scrape=http://h:9100/metrics"], "is not NAME=http://HOST:PORT/metrics"),
        (["--scrape=node=https://h:9100/metrics"], "is not NAME=http://HOST:PORT/metrics"),
        (["--scrape=node=http:///metrics"], "is not NAME=http://HOST:PORT/metrics"),
        (["--scrape=node=http://[::1/metrics"], "is not NAME=http://HOST:PORT/metrics"),
        (["--scrape=triton=http://h:8002/metrics"], "the name triton is taken"),
        (["--scrape=node=http://user:secret@h:9100/metrics"], "the URL holds a user"),
        (["--scrape=node=http://h:1/metrics", "--scrape=node=http://h:2/metrics"], "--scrape has node twice"),
        *(([f"--at={text}"], f"--at {text!r}") for text in ("true", "5:", "5", "-1:true", "5:sh -c 'a")),
        (["--at=soon:true"], "--at 'soon' is not a number"),
    ],
)
def test_rules_are_kept(flags: list[str], words: str) -> None:
    with pytest.raises(OptionError) as error:
        parse(flags)
    assert words in error.value.what
    assert error.value.fix


@pytest.mark.parametrize(
    ("flag", "example"),
    [
        ("--stages=10:fast", '--stages "10:100,10:400"'),
        ("--shape=x:y", "--shape NAME:3,224,224"),
        ("--input=x:FP32:y", "--input NAME:FP32:-1,4"),
        ("--input-range=ids:a:5", "--input-range ids:0:30521"),
        ("--request-cancellation=few:200ms", "--request-cancellation 5%:200ms"),
        ("--request-cancellation=5%:soon", "--request-cancellation 5%:200ms"),
        ("--slo=p99:fast", "--slo p99:50"),
        ("--slo=recovery:soon", "--slo p99:50"),
        ("--at=soon:true", "--at 10:"),
    ],
)
def test_a_part_that_is_not_a_number_has_an_example_of_the_whole(flag: str, example: str) -> None:
    with pytest.raises(OptionError, match="is not a number") as error:
        parse([flag])
    assert example in str(error.value.fix)


def test_rules_hold_for_keyword_arguments_and_json() -> None:
    with pytest.raises(OptionError, match="--gamma-cv belongs"):
        ConstantRate(rate=5, gamma_cv=2)
    with pytest.raises(OptionError, match="--metrics-grace"):
        msgspec.convert({"live": {"metrics_grace_s": 5}}, RunRequest)
    with pytest.raises(msgspec.ValidationError, match=r"unknown field `rtae` - at `\$.load`"):
        msgspec.convert({"load": {"kind": "constant-rate", "rtae": 5}}, RunRequest)
    with pytest.raises(msgspec.ValidationError, match=r"> 0.0 - at `\$.load.rate`"):
        msgspec.convert({"load": {"kind": "constant-rate", "rate": 0}}, RunRequest)


def test_a_changed_request_has_other_values_wherever_they_stand() -> None:
    request = changed(RunRequest(), seed=3, slo="p50:5", engine="pytorch", load=ClosedLoop(concurrency=4))
    assert (request.inputs, request.objectives) == (Inputs(seed=3), Objectives(slo="p50:5"))
    assert (request.engine, request.load) == ("pytorch", ClosedLoop(concurrency=4))
    with pytest.raises(OptionError, match="is for gRPC"):
        changed(request, streaming=True)


def test_a_search_has_runs_at_one_rate_each() -> None:
    search = MaxRate(distribution=Distribution.GAMMA, gamma_cv=3, duration_s=4)
    assert search.at(7) == ConstantRate(rate=7, distribution=Distribution.GAMMA, gamma_cv=3, duration_s=4, warmup=3)


def test_an_order_is_taken_once(tmp_path: Path) -> None:
    order = Order(request=RunRequest(load=Trace(file="t")), address="http://h:1", result_dir=str(tmp_path))
    path = order.place()
    assert (Order.take(path), path.exists()) == (order, False)


def test_names_may_hold_colons_and_slashes() -> None:
    found = parse(["--shape=serving_default_x:0:3,224,224,a/b:5,scalar:", "--input-range=ids:0:30521,x:0:-1.5:2"])
    assert found.inputs.shape == {"serving_default_x:0": (3, 224, 224), "a/b": (5,), "scalar": ()}
    assert found.inputs.input_range == {"ids": (0, 30521), "x:0": (-1.5, 2)}
    assert [type(end) for end in found.inputs.input_range["ids"]] == [int, int]


def test_parameters_have_types() -> None:
    flag = "--request-parameter=max_tokens:256:int,greedy:false:bool,temperature:0.7:double,stop:a,b:c:string"
    found = parse([flag]).server.request_parameters
    assert found == {"max_tokens": 256, "greedy": False, "temperature": 0.7, "stop": "a,b:c"}
    assert [type(value) for value in found.values()] == [int, bool, float, str]


def test_parameters_of_a_document_are_those_of_a_flag() -> None:
    assert Server(request_parameters={"a": -(2**63), "b": 2**53 + 1}).request_parameters["b"] == 2**53 + 1
    with pytest.raises(OptionError, match="'a:9223372036854775808:int' is not a whole number of 64 bits"):
        Server(request_parameters={"a": 2**63})
    with pytest.raises(OptionError, match="holds a text that reads like NAME:VALUE:TYPE"):
        Server(request_parameters={"p": "a:string,q:b"})


def test_exporters_have_names_urls_and_prefixes() -> None:
    node, dcgm = exporters_of(("node=http://h:9100/metrics#node_load, node_mem", "dcgm=http://h:9400/metrics"))
    assert node == Exporter("node", "http://h:9100/metrics", ("node_load", "node_mem"))
    assert dcgm.prefixes == ("",)


def test_commands_come_in_the_order_of_their_times() -> None:
    found = timed_commands_of(("20s:sh -c 'a; b'", "1.5: true"))
    assert found == [TimedCommand(1.5, "true"), TimedCommand(20.0, "sh -c 'a; b'")]
