"""A unary method: what is taken of its descriptions, how requests are filled, and what is refused with words."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.json_format import MessageToDict, ParseError

from loadgen.endpoints.endpoint import AnswerForm, Endpoint, RequestForm
from loadgen.endpoints.message_fields import fill
from loadgen.endpoints.method import HEALTH, UnaryMethod, described_by_file, described_by_server, places_of
from loadgen.kserve.grpc_call import PREFIX_BYTES, UNIMPLEMENTED, GrpcAnswer
from servemark.errors import InputDataError, OptionError, ServemarkError, ServerError
from servemark.protobuf import Messages
from servemark.workload import Tensor, get
from tests.golden.methods import item_file, message_of, official, ranker_file
from tests.support.told import Telling, described_config, told

POOL = official()
X, Y = Tensor("x", "FP32", (2,)), Tensor("y", "FP32", (2,))
CONFIG = described_config("own.json", X, outputs=[Y], version="3")
HEALTHS = Messages("health", {"Response": "status int32 1"})
SCORE = "golden.Ranker/Score"
V1, V1ALPHA = (f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in ("v1", "v1alpha"))


def method(folder: Path, body: Any = None, outputs: dict[str, str] | None = None, **more: Any) -> UnaryMethod:
    """golden.Ranker/Score by a descriptor set."""
    (folder / "own.pb").write_bytes(FileDescriptorSet(file=[item_file(), ranker_file()]).SerializeToString())
    request = RequestForm(body=body, method="golden.Ranker/Score", descriptor_set="own.pb", **more)
    return UnaryMethod(Endpoint("", request, AnswerForm(outputs=outputs or {})), str(folder / "own.json"))


def asked() -> Any:
    return message_of(POOL, "golden.ScoreRequest")()


@pytest.mark.parametrize(("status", "ready"), [(0, True), (1, True), (2, False), (3, True)])
def test_only_the_health_service_says_that_a_server_does_not_serve(tmp_path: Path, status: int, ready: bool) -> None:
    answer = told(HEALTHS.message("Response", status=status).SerializeToString())
    assert method(tmp_path).is_ready(Telling(answers={HEALTH: answer}), "m", "fix") is ready


def test_a_server_without_a_health_service_may_serve(tmp_path: Path) -> None:
    assert method(tmp_path).is_ready(Telling(), "m", "fix")


def test_headers_travel_as_metadata_in_lower_case(tmp_path: Path) -> None:
    assert method(tmp_path, headers={"X-Tenant": "A"}).metadata == [("x-tenant", "A")]


def test_the_places_of_a_body_are_filled(tmp_path: Path) -> None:
    body = {
        "model": "{{model}} v{{version}}", "features": "{{x}}", "raw": "{{raw.x}}", "shape": "{{shape.x}}",
        "texts": ["a", "b"], "items": [{"features": "{{row.x}}", "score": "{{row.x.0}}"}, {"score": 7}],
    }  # fmt: skip
    encode = method(tmp_path, body).encoder(Telling(), CONFIG)
    array = np.array([[1, 2], [3, 4]], "f4")
    request = asked().FromString(encode({"x": array})[PREFIX_BYTES:])
    assert request.raw == array.tobytes()
    request.ClearField("raw")
    assert MessageToDict(request) == {
        "model": "m v3", "features": [1, 2, 3, 4], "shape": ["2", "2"], "texts": ["a", "b"],
        "items": [{"features": [1, 2], "score": 1}, {"score": 7}],
    }  # fmt: skip


def test_places_of_one_and_of_several_inputs() -> None:
    tiny = get("ranking_tiny")
    one, two = (tiny.inputs[0].name, tiny.inputs[1].name)
    arrays = {one: np.ones((2, 3), "f4")}
    found = places_of(arrays, tiny, frozenset())
    assert found["rows"] is arrays[one]
    assert found["row"].tolist() == [1, 1, 1]
    assert "raw." + one not in found
    both = places_of({**arrays, two: np.zeros((2, 1), "i8")}, tiny, frozenset())
    assert [{name: each.tolist() for name, each in row.items()} for row in both["rows"]] == [
        {one: [1, 1, 1], two: [0]}
    ] * 2
    assert both["row"] is both["object"]


@pytest.mark.parametrize(("body", "says"), [
    ([], r"golden.ScoreRequest is an object, and '\[\]' is not one"),
    ({"nonesuch": 1}, "is not a golden.ScoreRequest: it has no field 'nonesuch', but model, features"),
    ({"model": "{{x}}"}, "golden.ScoreRequest.model takes one value, and there are 4"),
    ({"texts": "{{x}}"}, "golden.ScoreRequest.texts: "),
    ({"items": {"score": 7}}, "golden.ScoreRequest.items takes a list, and .* is not one"),
    ({"items": "{{x}}"}, "golden.ScoreRequest.items takes a list, and .* is not one"),
    ({"items": [7]}, "golden.Item is an object, and '7' is not one"),
    ({"features": {"a": 1}}, "is not a golden.ScoreRequest"),
])  # fmt: skip
def test_a_body_that_is_not_the_message_is_refused(tmp_path: Path, body: Any, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        method(tmp_path, body).encoder(Telling(), CONFIG)({"x": np.ones((2, 2), "f4")})


def test_a_place_or_a_pointer_that_the_model_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"(?s)\{\{raw.z\}\} is not an input.*raw.x"):
        method(tmp_path, {"raw": "{{raw.z}}"}).encoder(Telling(), CONFIG)
    with pytest.raises(OptionError, match=r"(?s)answer.outputs does not have y.*it has z"):
        method(tmp_path, {}, {"z": "/scores"}).reader(Telling(), CONFIG)


@pytest.mark.parametrize(("pointer", "says"), [
    ("/nonesuch", "no field 'nonesuch'"), ("/items", "is a message"), ("/items/x/score", "is not an index"),
    ("/texts", "is not FP32"),
])  # fmt: skip
def test_a_pointer_that_leads_to_no_values_of_its_output_is_refused(tmp_path: Path, pointer: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        method(tmp_path, {}, {"y": pointer}).reader(Telling(), CONFIG)


def test_texts_are_texts_in_a_string_and_bytes_in_bytes() -> None:
    message = asked()
    fill(message, {"texts": np.array([["é".encode()], [0]], object), "raw": np.array([b"\xff"], object)})
    assert [*message.texts] == ["é", ""]  # padding is 0
    assert message.raw == b"\xff"
    with pytest.raises(InputDataError, match=r"(?s)golden.ScoreRequest.texts is a string.*not text.*type bytes"):
        fill(message, {"texts": np.array([b"\xff"], object)})


def test_null_leaves_a_field_out_and_an_empty_object_does_not() -> None:
    request = message_of(POOL, "tensorflow.serving.PredictRequest")()
    fill(request, {"modelSpec": {}, "outputFilter": None})
    assert request.HasField("model_spec")
    assert not request.output_filter


def test_maps_are_filled_by_their_keys() -> None:
    request = message_of(POOL, "tensorflow.serving.PredictRequest")()
    fill(request, {"inputs": {"x": {"dtype": "DT_FLOAT", "float_val": np.ones((1, 2), "f4")}}})
    assert [*request.inputs] == ["x"]
    assert [*request.inputs["x"].float_val] == [1, 1]
    with pytest.raises(ParseError, match="inputs takes an object"):
        fill(request, {"inputs": [1]})


def described(folder: Path, *files: FileDescriptorProto) -> Path:
    """A descriptor set as protoc writes it."""
    file = folder / "own.pb"
    file.write_bytes(FileDescriptorSet(file=files).SerializeToString())
    return file


def reflected(*files: FileDescriptorProto, error: str = "") -> GrpcAnswer:
    """An answer of server reflection, by the official messages."""
    response = message_of(POOL, "grpc.reflection.v1alpha.ServerReflectionResponse")()
    response.file_descriptor_response.file_descriptor_proto.extend(each.SerializeToString() for each in files)
    if error:
        response.error_response.error_message = error
    return told(response.SerializeToString())


def test_a_file_describes_a_method_with_what_it_imports(tmp_path: Path) -> None:
    method = described_by_file(described(tmp_path, ranker_file(), item_file()), SCORE)
    assert method.input_type.full_name == "golden.ScoreRequest"
    items = method.output_type.fields_by_name["items"].message_type
    assert items is not None
    assert [*items.fields_by_name] == ["score", "features"]


@pytest.mark.parametrize(("method", "says", "fix"), [
    ("golden.Other/Score", "own.pb does not describe golden.Other", "correct request.method"),
    ("golden.Ranker/Nothing", "golden.Ranker has no method Nothing", "one of: Score, Watch"),
    ("golden.Ranker/Watch", "golden.Ranker/Watch is a stream", "a method that takes one message"),
])  # fmt: skip
def test_a_method_that_is_not_there_or_is_none(tmp_path: Path, method: str, says: str, fix: str) -> None:
    with pytest.raises(OptionError, match=rf"(?s){says}.*{fix}"):
        described_by_file(described(tmp_path, item_file(), ranker_file()), method)


def test_a_file_without_what_it_imports_names_the_flag_of_protoc(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match=r"(?s)own.pb lacks 'golden/item.proto'.*protoc --include_imports"):
        described_by_file(described(tmp_path, ranker_file()), SCORE)


def test_files_that_are_not_descriptor_sets(tmp_path: Path) -> None:
    broken = ranker_file()
    broken.message_type[0].field[0].type_name = ".golden.Nothing"
    circle, back = (FileDescriptorProto(name=name, dependency=[other]) for name, other in (("a", "b"), ("b", "a")))
    (tmp_path / "text.pb").write_text("syntax = 'proto3'; // not compiled")
    os.mkfifo(tmp_path / "pipe.pb")
    for file in (tmp_path / "none.pb", tmp_path / "text.pb", tmp_path / "pipe.pb"):
        with pytest.raises(InputDataError, match=r"(?s)\.pb does not describe messages: .*protoc --include_imports"):
            described_by_file(file, SCORE)
    for files in ((item_file(), broken), (circle, back)):
        with pytest.raises(InputDataError, match=r"own.pb does not describe messages: "):
            described_by_file(described(tmp_path, *files), SCORE)


def test_a_description_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadgen.endpoints.method.MAX_FILES", 1)
    with pytest.raises(ServerError, match="describes more than 1 files"):
        described_by_file(described(tmp_path, ranker_file(), item_file()), SCORE)


def test_a_server_is_asked_for_the_service_and_then_for_what_is_imported() -> None:
    server = Telling(answers={V1: reflected(ranker_file(), item_file())})
    assert described_by_server(server, SCORE).name == "Score"
    asked = message_of(POOL, "grpc.reflection.v1alpha.ServerReflectionRequest").FromString
    assert [(path, asked(request).file_containing_symbol) for path, request in server.asked] == [(V1, "golden.Ranker")]
    server = Telling(answers={V1ALPHA: reflected(ranker_file())})
    with pytest.raises(ServerError, match=r"lacks 'golden/item.proto'"):  # the answer is the ranker's file again
        described_by_server(server, SCORE)
    assert [path for path, _ in server.asked] == [V1, V1ALPHA, V1, V1ALPHA]
    assert asked(server.asked[-1][1]).file_by_filename == "golden/item.proto"


@pytest.mark.parametrize(("answer", "kind", "says"), [
    (told(UNIMPLEMENTED), OptionError, r"(?s)told:1 has no reflection.*describe golden.Ranker.*request.descriptor_set"),
    (told("grpc_unavailable"), ServerError, "reflection: grpc_unavailable its words"),
    (reflected(error="no such symbol"), OptionError, r"(?s)told:1 does not describe golden.Ranker: no such.*correct"),
    (told(b"\xff\xff"), InputDataError, r"(?s)told:1 does not describe messages: .*request.descriptor_set"),
    (reflected(), OptionError, "told:1 does not describe golden.Ranker"),
])  # fmt: skip
def test_a_server_that_does_not_describe_its_method(answer: GrpcAnswer, kind: type[ServemarkError], says: str) -> None:
    with pytest.raises(kind, match=says):
        described_by_server(Telling(answers={V1: answer}), SCORE)
