"""The first request, alone before the load: how often it is tried, for how long, and what it says."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from loadgen.driver.connections import Connections
from loadgen.driver.event_loop import Driver
from loadgen.kserve.grpc_call import UNIMPLEMENTED
from loadgen.measurement.probe import remedy_of, require_answer
from loadgen.sut.channel import Payload
from loadgen.targets.open import open_target
from servemark.errors import ServerError
from servemark.workload import Tensor, get
from tests.golden.grpc import GoldenGrpc
from tests.golden.methods import GoldenMethods, item_file, ranker_file
from tests.golden.server import GoldenServer
from tests.support.load_config import config, of_server
from tests.support.locust_run import server_of

AGAIN = "--request-timeout with more seconds"


@pytest.mark.parametrize(
    ("behaviour", "timeout", "sent", "words"),
    [
        ({}, "30", 1, None),
        ({"error_every": 1}, "30", 3, "http_500: HTTP 500: golden error on request 1"),
        ({"never_every": 1}, "1", 1, f"timeout: no response within 1 s.*{AGAIN}"),
    ],
)
def test_a_first_request(behaviour: dict[str, Any], timeout: str, sent: int, words: str | None) -> None:
    """Requests of the load begin with those that were tried; a server that does not answer is asked once."""
    with server_of(get("ranking_tiny"), **behaviour) as server:
        asked = config("ranking_tiny", "--url", server.url, "--request-timeout", timeout)
        target = open_target(asked)
        whole = [*itertools.islice(target.payloads(None), 5)]
        if words is None:
            requests, tried = require_answer(target, target.payloads(None), asked, lambda _: None)
            assert tried == sent
            assert [*itertools.islice(requests, 5)] == whole
        else:
            with pytest.raises(ServerError, match=f"(?s)^ranking_tiny_onnxruntime fails at a first request, {words}"):
                require_answer(target, target.payloads(None), asked, lambda _: None)
        assert len(server.requests()) == sent


@pytest.mark.parametrize(("golden", "first"), [(2, [2, 3, 4]), (5, [0, 1, 2])])
def test_a_golden_request_does_not_hide_that_the_others_fail(
    golden: int, first: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []

    class Watched(Driver):
        def __init__(self, connections: Connections, requests: Iterator[Payload], **kwargs: Any) -> None:
            whole = [*requests]
            sent.extend(each.request for each in whole)
            super().__init__(connections, iter(whole), **kwargs)

    monkeypatch.setattr("loadgen.measurement.probe.Driver", Watched)
    with server_of(get("ranking_tiny"), error_every=1) as server:
        asked = config("ranking_tiny", "--url", server.url)
        target = open_target(asked)
        given = [*itertools.islice(target.payloads(None), 5)]
        given[:golden] = [replace(each, golden_rows=(0,)) for each in given[:golden]]
        with pytest.raises(ServerError, match="fails at a first request"):
            require_answer(target, iter(given), asked, lambda _: None)
    assert sent == [given[each].request for each in first]


def first_answer(url: str, *flags: str) -> None:
    """Ask a server for the first answer of a model whose tensors are declared."""
    asked = of_server(url, "--input=x:FP32:-1,4", "--output=y:FP32:-1,4", *flags)
    target = open_target(asked)
    require_answer(target, target.payloads(None), asked, lambda _: None)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_wrong_shape_names_the_output_and_both_shapes(protocol: str) -> None:
    tensors = {"inputs": ["x:FP32:4"], "outputs": ["y:FP32:4"]}
    golden = GoldenGrpc(model="m", width=4) if protocol == "grpc" else GoldenServer(model="m", **tensors)
    with golden as server:
        asked = of_server(f"{protocol}://127.0.0.1:{server.port}")
        named = asked.workload.outputs[0].name
        other = replace(asked, workload=replace(asked.workload, outputs=(Tensor(named, "FP32", (9,)),)))
        target = open_target(other)
        words = rf"wrong_shape: output '{named}' is expected as FP32\[1, 9\], and the answer has FP32\[1, 4\]"
        with pytest.raises(ServerError, match=words):
            require_answer(target, target.payloads(None), other, lambda _: None)


def test_a_method_that_the_server_does_not_have_has_its_own_remedy(tmp_path: Path) -> None:
    service = FileDescriptorProto.FromString(ranker_file().SerializeToString().replace(b"Ranker", b"Runner"))
    (tmp_path / "own.pb").write_bytes(FileDescriptorSet(file=[item_file(), service]).SerializeToString())
    request = {"method": "golden.Runner/Score", "body": {"features": "{{x}}"}, "descriptor_set": "own.pb"}
    described = tmp_path / "own.json"
    described.write_text(json.dumps({"about": "", "request": request, "answer": {"outputs": {"y": "/scores"}}}))
    unknown = "(?s)fails at a first request, grpc_unimplemented: .*"
    with GoldenMethods() as server:
        url = f"grpc://127.0.0.1:{server.port}"
        with pytest.raises(ServerError, match=f"{unknown}another --endpoint-type or request.method"):
            first_answer(url, f"--endpoint-type={described}")
        with pytest.raises(ServerError, match=f"{unknown}--endpoint-type where the server does not speak KServe v2"):
            first_answer(url)
    with GoldenGrpc() as kserve, pytest.raises(ServerError, match=f"{unknown}another --endpoint-type"):
        first_answer(f"grpc://127.0.0.1:{kserve.port}", "--endpoint-type=tensorflow-serving")


@pytest.mark.parametrize(("kind", "words", "remedy"), [
    (UNIMPLEMENTED, "", "--endpoint-type where the server does not speak KServe v2"),
    (UNIMPLEMENTED, "ModelInfer RPC doesn't support models with decoupled transaction policy", "--streaming"),
    ("grpc_invalid_argument", "", "--shape"),
    ("http_404", "", "--endpoint-type where the server does not speak KServe v2"),
    ("http_400", "", "--shape"),
])  # fmt: skip
def test_the_remedy_is_that_of_the_words_and_then_of_the_kind(kind: str, words: str, remedy: str) -> None:
    assert remedy in str(remedy_of(kind, words, described=False))


def test_a_failure_that_is_not_known_has_no_remedy() -> None:
    assert remedy_of("nonesuch", "", described=True) is None


@pytest.mark.parametrize(
    ("tensors", "flags", "says", "not_"),
    [
        (["x:FP32:4"], [], "--input-tensor-format json", "--input-range"),
        (["ids:INT64:4"], [], "--input-range ids:LEAST:MOST", "--input-data"),
        (["ids:INT64:4"], ["--input-range=ids:0:9"], "--input-data FILE", "--input-range"),
        (["x:FP32:4"], ["--input-tensor-format=json"], "--input-data FILE", "--input-tensor-format"),
        (["x:FP32:4"], ["--input-data=own.json"], "correct own.json", "--input-data FILE"),
    ],
)
def test_a_server_s_error_suggests_what_fits_the_request(
    tensors: list[str], flags: list[str], says: str, not_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.json").write_text('{"data": [{"x": [1, 2, 3, 4]}]}')
    with GoldenServer(model="m", inputs=tensors, outputs=["y:FP32:4"], error_every=1) as server:
        asked = of_server(server.url, *flags)
        target = open_target(asked)
        target.prepare()
        with pytest.raises(ServerError, match="fails at a first request, http_500") as failed:
            require_answer(target, target.payloads(None), asked, lambda _: None)
    assert says in str(failed.value.fix)
    assert not_ not in str(failed.value.fix)
