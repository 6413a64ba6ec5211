"""Unary methods that are not KServe v2's, over real sockets: TensorFlow Serving, and any that a document describes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from loadgen.load.load_config import LoadConfig
from tests.golden.load import Load, answers
from tests.golden.methods import GoldenMethods, item_file, ranker_file
from tests.support.load_config import of_server

FLAGS = ["--input", "x:FP32:-1,4", "--output", "y:FP32:-1,4"]
TENSORS = ["--input", "a:FP32:-1,4", "--input", "b:BYTES:-1,2", "--output", "c:FP32:-1,4", "--output", "d:BYTES:-1,2"]
SCORES: dict[str, Any] = {
    "about": "a ranker",
    "request": {"method": "golden.Ranker/Score", "body": {"model": "{{model}}", "features": "{{x}}"}},
    "answer": {"outputs": {"y": "/scores"}},
}


def resolved(server: GoldenMethods, kind: object, *flags: str) -> LoadConfig:
    return of_server(f"grpc://127.0.0.1:{server.port}", "--endpoint-type", str(kind), *flags)


def sent(kind: object, *flags: str, **behaviour: Any) -> Load:
    with GoldenMethods(**behaviour) as server:
        return answers(resolved(server, kind, *flags))


def described(folder: Path, body: Any, outputs: dict[str, str], **request: Any) -> Path:
    file = folder / "own.json"
    asked = {**SCORES["request"], "body": body, **request}
    file.write_text(json.dumps({**SCORES, "request": asked, "answer": {"outputs": outputs}}))
    return file


@pytest.mark.parametrize("typed", [True, False])
def test_tensorflow_serving_reads_our_requests_and_we_its_answers(typed: bool) -> None:
    found = sent("tensorflow-serving", *TENSORS, "--batch-size", "3", "--model-version", "1", typed=typed)
    assert {*found.kinds} == {"ok"}, found.outcomes[0].message


@pytest.mark.parametrize(("broken", "kind"), [("error", "grpc_unavailable"), ("other_model", "wrong_model")])
def test_broken_answers_of_tensorflow_serving_are_found(broken: str, kind: str) -> None:
    assert {*sent("tensorflow-serving", *FLAGS, **{f"{broken}_every": 3}).kinds} == {"ok", kind}


@pytest.mark.parametrize("reflection", ["v1", "v1alpha"])
def test_a_method_is_described_by_its_server(tmp_path: Path, reflection: str) -> None:
    file = described(tmp_path, SCORES["request"]["body"], {"y": "/scores"})
    with GoldenMethods(reflection=reflection) as server:
        found = answers(resolved(server, file, *FLAGS, "--batch-size", "3"))
        log = server.log()
    assert {*found.kinds} == {"ok"}, found.outcomes[0].message
    assert log["reflected"] == 2  # the service's file and the one that it imports
    assert {*log["requests"]} == {3 + 2 + 3 * 4 * 4}  # the model, and packed floats


def test_a_method_is_described_by_a_file(tmp_path: Path) -> None:
    files = FileDescriptorSet(file=[item_file(), ranker_file()])
    (tmp_path / "own.pb").write_bytes(files.SerializeToString())
    file = described(tmp_path, SCORES["request"]["body"], {"y": "/scores"}, descriptor_set="own.pb")
    assert {*sent(file, *FLAGS, reflection="").kinds} == {"ok"}


@pytest.mark.parametrize(("body", "pointer", "flags"), [
    ({"raw": "{{raw.x}}", "shape": "{{shape.x}}"}, "/raw", FLAGS),
    ({"features": "{{x}}"}, "/counts", ["--input", "x:FP32:-1,4", "--output", "y:INT64:-1,4"]),
    ({"features": "{{row.x}}"}, "/scores", ["--input", "x:FP32:4", "--output", "y:FP32:-1"]),
    ({"items": [{"features": "{{x}}"}], "features": "{{x}}"}, "/items/*/score",
     ["--input", "x:FP32:-1,4", "--output", "y:FP32:-1"]),
    ({"features": [1, 2], "texts": "{{x}}"}, "/texts", ["--input", "x:BYTES:-1,2", "--output", "y:BYTES:-1,2"]),
])  # fmt: skip
def test_values_go_to_and_come_from_fields_of_each_kind(
    tmp_path: Path, body: Any, pointer: str, flags: list[str]
) -> None:
    found = sent(described(tmp_path, body, {"y": pointer}), *flags)
    assert {*found.kinds} == {"ok"}, found.outcomes[0].message


def test_an_answer_without_pointers_has_its_status_looked_at(tmp_path: Path) -> None:
    file = described(tmp_path, SCORES["request"]["body"], {})
    assert {*sent(file, "--input", "x:FP32:-1,4", error_every=2).kinds} == {"ok", "grpc_invalid_argument"}


@pytest.mark.parametrize(("broken", "seen"), [("wrong_shape", "5 values"), ("missing", "0 values")])
def test_broken_answers_of_a_method_are_found(tmp_path: Path, broken: str, seen: str) -> None:
    file = described(tmp_path, SCORES["request"]["body"], {"y": "/scores"})
    found = sent(file, *FLAGS, **{f"{broken}_every": 3})
    assert {*found.kinds} == {"ok", "wrong_shape"}
    words = {each.words() for each in found.outcomes if each.error}
    assert words == {f"output 'y' is expected as FP32[1, 4], and the answer has {seen}"}


def test_answers_are_decoded(tmp_path: Path) -> None:
    data = tmp_path / "in.json"
    data.write_text(json.dumps({"data": [{"x": [1, 2, 3, 4]}]}))
    for kind in ("tensorflow-serving", described(tmp_path, {"features": "{{x}}"}, {"y": "/scores"})):
        with GoldenMethods() as server:
            config = resolved(server, kind, *FLAGS, "--input-data", str(data))
            response = answers(config, 1).outcomes[0].response
        assert response is not None
        assert np.array_equal(response.arrays(config.workload.outputs)["y"], [[1, 2, 3, 4]])
