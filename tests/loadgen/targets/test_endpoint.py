"""Servers that speak other JSON APIs, driven over real sockets: the golden server speaks each from its own page."""

import json
import socket
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from loadgen.endpoints.endpoint import built_in
from loadgen.load.load_config import LoadConfig
from loadgen.targets.open import open_target
from servemark.errors import InputDataError, OptionError, ServemarkError, ServerError
from tests.golden.load import TargetLoad, answers
from tests.golden.server import GoldenServer
from tests.support.load_config import of_server
from tests.support.raw_server import raw_server

TENSORS = {
    "kserve-v1": (["x:FP32:-1,4"], ["y:FP32:-1,4"]),
    "tensorflow-serving": (["x:FP32:-1,4", "text:BYTES:-1,2"], ["y:FP32:-1,4", "said:BYTES:-1,2"]),
    "torchserve": (["x:FP32:-1,4", "ids:INT64:-1,3"], ["y:FP32:-1,4", "z:INT64:-1,3"]),
    "openai-embeddings": (["tokens:INT64:-1,5"], ["embedding:FP32:-1,8"]),
    "rerank": (["query:BYTES:1", "documents:BYTES:6"], ["relevance_score:FP32:6"]),
    "predict": (["input:FP32:-1,4"], ["output:FP32:-1,4"]),
    "bentoml": (["x:FP32:-1,4", "ids:INT64:-1,3"], ["y:FP32:-1,4", "z:INT64:-1,3"]),
}


def unbatched(declared: str) -> str:
    """Leave the batch dimension out, as the golden server names its tensors."""
    name, datatype, shape = declared.split(":")
    return f"{name}:{datatype}:{shape.removeprefix('-1,')}"


def golden(api: str, **behaviour: Any) -> GoldenServer:
    inputs, outputs = ([unbatched(each) for each in tensors] for tensors in TENSORS[api])
    return GoldenServer(json_api=api, model="m", inputs=inputs, outputs=outputs, **behaviour)


def resolved(url: str, api: str, *flags: str, endpoint: str = "") -> LoadConfig:
    inputs, outputs = TENSORS[api]
    declared = [flag for each in inputs for flag in ("--input", each)]
    declared += [flag for each in outputs for flag in ("--output", each)]
    return of_server(url, "--endpoint-type", endpoint or api, *declared, *flags)


@pytest.mark.parametrize("api", built_in())
def test_every_endpoint_type_is_spoken(api: str) -> None:
    batched = api in {"kserve-v1", "tensorflow-serving", "openai-embeddings", "bentoml"}
    with golden(api, **({"max_batch_size": 0} if api == "rerank" else {})) as server:
        sent = answers(resolved(server.url, api, *(["--batch-size", "3"] if batched else [])))
        log = server.log()
    assert {*sent.kinds} == {"ok"}, sent.outcomes[0].message
    assert {entry["batch"] for entry in log["requests"]} == {3 if batched else 1}
    assert len({entry["crc32"] for entry in log["requests"]}) > 1
    assert log["rejected"] == 0


@pytest.mark.parametrize(("api", "broken", "kind", "words"), [
    ("kserve-v1", "error", "http_500", "HTTP 500: golden error on request "),
    ("kserve-v1", "wrong_shape", "wrong_shape", "output 'y' is expected as FP32[1, 4], and the answer has FP32[1, "),
    ("openai-embeddings", "wrong_shape", "wrong_shape", "output 'embedding' is expected as FP32[1, 8], and the answer"),
    ("predict", "truncate", "connection_closed", ""),
])  # fmt: skip
def test_broken_answers_are_found_among_good_ones(api: str, broken: str, kind: str, words: str) -> None:
    with golden(api, **{f"{broken}_every": 3}) as server:
        sent = answers(resolved(server.url, api))
    assert {*sent.kinds} == {"ok", kind}
    assert all(each.words().startswith(words) for each in sent.outcomes if each.error)


def test_a_version_is_asked_for_where_the_type_has_versions() -> None:
    with golden("tensorflow-serving") as server:
        assert {*answers(resolved(server.url, "tensorflow-serving", "--model-version", "1")).kinds} == {"ok"}
        assert "POST /v1/models/m/versions/1:predict" in server.log()["paths"]
    with golden("predict") as server, pytest.raises(OptionError, match="has no versions"):
        open_target(resolved(server.url, "predict", "--model-version", "1"))


def test_a_file_describes_a_server_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    described = {
        "about": "mine",
        "request": {"path": "/predict", "body": {"input": "{{row.input}}"}, "headers": {"X-Kind": "own"}},
        "answer": {"outputs": {"output": "/output"}},
    }
    file.write_text(json.dumps(described))
    with golden("predict", max_batch_size=0) as server:
        tensors = ["--input", "input:FP32:4", "--output", "output:FP32:4"]
        sent = answers(of_server(server.url, "--endpoint-type", str(file), *tensors))
    assert {*sent.kinds} == {"ok"}, sent.outcomes[0].message


@pytest.mark.parametrize(("flags", "says"), [
    (("--endpoint-type", "nonesuch"), "it is not a type"),
    (("--endpoint-type", "kserve-v1", "--shared-memory", "system"), "excludes --shared-memory"),
    (("--endpoint-type", "kserve-v1", "--sequence-length", "3"), "excludes --sequence-length"),
    (("--endpoint-type", "kserve-v1", "--protocol", "grpc"), "spoken over HTTP"),
    (("--endpoint-type", "kserve-v1"), "does not tell the tensors"),
])  # fmt: skip
def test_a_wrong_use_is_refused_with_words(flags: tuple[str, ...], says: str) -> None:
    with golden("kserve-v1") as server:
        url = server.url if "grpc" not in flags else server.url.replace("http", "grpc")
        with pytest.raises(ServemarkError, match=says):
            of_server(url, *flags)


def test_a_model_without_outputs_is_refused() -> None:
    with golden("kserve-v1") as server:
        config = of_server(server.url, "--endpoint-type", "kserve-v1", "--input", "x:FP32:-1,4")
        with pytest.raises(ServemarkError, match="needs its inputs and its outputs"):
            open_target(config)


@pytest.mark.parametrize(("text", "says"), [
    ("{", "does not describe an endpoint"),
    ('{"about": "", "request": {"path": "predict", "body": 1}, "answer": {"row": ""}}', "is not a path"),
    ('{"about": "", "request": {"path": "/p", "body": 1}, "answer": {}}', "give one of rows, row, outputs"),
    ('{"about": "", "request": {"path": "/p", "body": 1}, "answer": {"rows": "x"}}', "JSON pointer"),
    ('{"about": "", "request": {"path": "/p", "body": 1, "headers": {"a b": ""}}, "answer": {"row": ""}}', "headers"),
])  # fmt: skip
def test_a_wrong_file_is_refused_with_words(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(text)
    with pytest.raises(InputDataError, match=says):
        resolved("http://127.0.0.1:9", "kserve-v1", endpoint=str(file))


def test_a_server_that_does_not_know_the_model_is_named() -> None:
    server = GoldenServer(json_api="kserve-v1", model="other")
    with server, pytest.raises(ServerError, match="does not serve"):
        resolved(server.url, "kserve-v1")


def test_answers_are_decoded(tmp_path: Path) -> None:
    data = tmp_path / "in.json"
    data.write_text(json.dumps({"data": [{"x": [1, 2, 3, 4]}]}))
    with golden("kserve-v1") as server:
        config = resolved(server.url, "kserve-v1", "--input-data", str(data))
        response = answers(config, 1).outcomes[0].response
    assert response is not None
    assert response.arrays(config.workload.outputs)["y"].tolist() == [[1, 2, 3, 4]]


@pytest.mark.parametrize(("read", "second"), [(False, None), (True, "malformed_response")])
def test_the_numbers_of_an_answer_that_is_compared_are_read(read: bool, second: str | None) -> None:
    """Of other answers they are counted: those after the first have as many, of which one is none."""
    bodies = chain([b'{"predictions": [[1, 2, 3, 4]]}'], repeat(b'{"predictions": [[1, 2, 3, -]]}'))

    def talk(connection: socket.socket) -> None:
        while asked := connection.recv(65536):
            body = next(bodies) if asked.startswith(b"POST") else b"{}"
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    with raw_server(talk) as (port, _):
        target = open_target(resolved(f"http://127.0.0.1:{port}", "kserve-v1"))
        outcomes = TargetLoad(target, 2, numbered=read).closed(1, 0, at_least=2).outcomes
    assert [outcome.error for outcome in outcomes[:2]] == [None, second]
