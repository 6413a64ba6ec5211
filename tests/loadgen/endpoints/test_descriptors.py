"""Descriptions of a method: what is taken of a file and of a server's reflection, and what is refused with words."""

from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from loadgen.endpoints import descriptors
from loadgen.endpoints.descriptors import described_by_file, described_by_server
from loadgen.kserve.grpc_call import UNIMPLEMENTED, GrpcAnswer
from servemark.errors import InputDataError, OptionError, ServemarkError, ServerError
from tests.golden.methods import item_file, message_of, official, ranker_file
from tests.support.told import Telling, told

SCORE = "golden.Ranker/Score"
V1, V1ALPHA = (f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in ("v1", "v1alpha"))
POOL = official()


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
    for file in (tmp_path / "none.pb", tmp_path / "text.pb"):
        with pytest.raises(InputDataError, match=r"(?s)\.pb does not describe messages: .*protoc --include_imports"):
            described_by_file(file, SCORE)
    for files in ((item_file(), broken), (circle, back)):
        with pytest.raises(InputDataError, match=r"own.pb does not describe messages: "):
            described_by_file(described(tmp_path, *files), SCORE)


def test_a_description_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "MAX_FILES", 1)
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
