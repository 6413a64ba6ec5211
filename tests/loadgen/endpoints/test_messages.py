"""Described endpoints without a server: their files, places, pointers, and what is judged how."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.endpoints.control import HttpEndpointControl
from loadgen.endpoints.endpoint import AnswerForm, Endpoint, RequestForm, at_pointer, endpoint_of
from loadgen.endpoints.messages import AnswerChecker, Encoder, as_array
from loadgen.transport.access import Access
from loadgen.transport.http1_head import HEAD_END, Head
from servemark.errors import InputDataError, OptionError
from servemark.workload import Tensor
from tests.support.any_workload import any_workload

X, TEXT = Tensor("x", "FP32", (2,)), Tensor("text", "BYTES", (1,))
Y = Tensor("y", "INT64", (2,))
DESCRIBED = '{"about": "%s", "request": {"path": "/p", "body": 1}, "answer": {"row": ""}}'


def body_of(template: Any, arrays: dict[str, Any], *inputs: Tensor, max_batch: int = 8, **more: Any) -> Any:
    endpoint = Endpoint("", RequestForm(path="/p", body=template), AnswerForm(row=""), **more)
    request = Encoder(endpoint, any_workload(inputs, [Y], name="m", max_batch=max_batch), "h:1", "m")(arrays)
    head, _, body = request.partition(HEAD_END)
    assert f"Content-Length: {len(body)}".encode() in head
    return json.loads(body)


def test_the_places_of_a_body() -> None:
    arrays = {"x": np.array([[1, 2], [3, 4]], "f4"), "text": np.array([[b"a"], [b"b"]], object)}
    assert body_of({"i": "{{rows}}"}, arrays, X, TEXT) == {
        "i": [{"x": [1, 2], "text": ["a"]}, {"x": [3, 4], "text": ["b"]}]
    }
    assert body_of(["{{x}}", "of {{model}}", 7, None], arrays, X, TEXT) == [[[1, 2], [3, 4]], "of m", 7, None]
    one = {"x": np.array([[1, 2]], "f4")}
    assert body_of("{{rows}}", one, X) == [[1, 2]]
    assert body_of(["{{row}}", "{{object}}", "{{row.x.0}}"], one, X) == [[1, 2], {"x": [1, 2]}, 1]
    assert body_of("{{row}}", {"x": np.array([1, 2], "f4")}, X, max_batch=0) == [1, 2]
    assert body_of("{{text}}", {"text": np.array([[b"\xff"]], object)}, TEXT, bytes_as="b64") == [[{"b64": "/w=="}]]


def test_what_cannot_be_sent_is_said() -> None:
    with pytest.raises(OptionError, match="is not an input of m"):
        body_of("{{y}}", {}, X)
    with pytest.raises(InputDataError, match="no NaN"):
        body_of("{{x}}", {"x": np.array([[np.nan, 1]], "f4")}, X)
    with pytest.raises(InputDataError, match="not text"):
        body_of("{{text}}", {"text": np.array([[b"\xff"]], object)}, TEXT)


def test_a_request_has_each_header_field_once() -> None:
    given = {"HOST": "a.example.com", "content-type": "application/json; charset=utf-8", "X-Team": "a"}
    endpoint = Endpoint("", RequestForm(path="/p", body="{{rows}}", headers=given), AnswerForm(row=""))
    encoder = Encoder(endpoint, any_workload([X], [Y]), "10.0.0.1:80", "m", headers=[("x-team", "b")])
    head = encoder({"x": np.array([[1, 2]], "f4")}).partition(HEAD_END)[0].decode().split("\r\n")
    assert head[1:] == [
        "Host: a.example.com", "content-type: application/json; charset=utf-8", "x-team: b", "Content-Length: 11"
    ]  # fmt: skip
    control = HttpEndpointControl("http://10.0.0.1:80", Access(headers=(("x-team", "b"),)), endpoint=endpoint)
    assert control.fields == {"host": "a.example.com", "x-team": "b"}


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding", "Connection", "TE", "Accept-Encoding", "x y"])
def test_a_field_that_says_how_a_message_travels_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"request\.headers: .* (says how a message travels|not a valid field name)"):
        Endpoint("", RequestForm(path="/p", body="{{rows}}", headers={name: "5"}), AnswerForm(row=""))


@pytest.mark.parametrize(
    ("request_form", "words"),
    [
        (RequestForm(path="/p", body="", headers={"Host": "a b"}), "not HOST or HOST:PORT"),
        (RequestForm(path="/p", body="", headers={"X-A": "1", "x-a": "2"}), "x-a is there twice"),
        (RequestForm(path="/p", body="", headers={"X-A": "ü"}), "other than ASCII"),
        (RequestForm(path="/p", body="", headers={"X-A": "abc\n"}), "X-A"),
        (RequestForm(method="a.B/C", body={}, headers={"Content-Type": "text/plain"}), "says how a message travels"),
        (RequestForm(method="no method", body={}), "is not like package.Service/Method"),
        (RequestForm(method="a.B/C", path="/p", body={}), "give one of path"),
    ],
)
def test_a_request_that_cannot_be_sent_is_refused(request_form: RequestForm, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Endpoint("", request_form, AnswerForm() if request_form.method else AnswerForm(row=""))


def test_a_pointer_of_each_kind() -> None:
    document = {"a/b": [{"~": 1}, {"~": 2}]}
    assert at_pointer(document, "/a~1b/*/~0") == [1, 2]
    assert at_pointer(document, "/a~1b/1/~0") == 2
    assert at_pointer(document, "") is document
    for nowhere in ("/a", "/a~1b/2", "/a~1b/01", "/a~1b/0/~0/x"):
        with pytest.raises(LookupError):
            at_pointer(document, nowhere)


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"rows": [[1, 2], [3, 4]]}, None),
        ({"rows": [{"y": [1, 2]}, {"y": [3, 4]}]}, None),
        ({"rows": [[1, 2]]}, "wrong_shape"),
        ({"rows": [[1, 2], [3]]}, "wrong_shape"),
        ({"rows": [["a", "b"], ["c", "d"]]}, "wrong_shape"),
        ({"rows": [{"z": 1}, {"z": 2}]}, "missing_output"),
        ({"rows": 7}, "missing_output"),
        ({}, "missing_output"),
        ([], "missing_output"),
    ],
)
def test_an_answer_is_judged_by_its_values(document: Any, kind: str | None) -> None:
    checker, body = AnswerChecker((Y,), 2, AnswerForm(rows="/rows")), json.dumps(document).encode()
    head = Head(200, len(body), None, keep_alive=True)
    assert checker.judge(head, body) == checker.judge(head, body) == checker.judge_values(head, body) == kind


def test_a_form_that_was_right_is_right_again_and_another_is_not() -> None:
    checker = AnswerChecker((Y,), 1, AnswerForm(rows="/rows"))
    head = Head(200, 0, None, keep_alive=True)
    assert checker.judge(head, b'{"rows":[[1,2]]}') is None
    assert checker.judge(head, b'{"rows": [[-7e3, 25]]}') is None
    assert checker.judge(head, b'{"rows":[[1,2,3]]}') == "wrong_shape"
    assert checker.judge(head, b'{"rows":[[1,2]]') == "malformed_response"
    assert checker.judge(Head(503, 0, None, keep_alive=True), b"") == "http_503"
    assert checker.decode(head, b'{"rows":[[1,2]]}', [Y])["y"].tolist() == [[1, 2]]


def test_an_empty_list_is_not_one_number() -> None:
    checker = AnswerChecker((Tensor("y", "FP32", (1,)),), 1, AnswerForm(rows="/rows"))
    head = Head(200, 0, None, keep_alive=True)
    for number in (0.5, 0.93):
        assert checker.judge(head, b'{"rows":[[%f]]}' % number) is None
    assert checker.judge(head, b'{"rows":[[ ]]}') == "wrong_shape"


def test_answers_of_whole_numbers_are_read_exactly() -> None:
    large = Tensor("y", "UINT64", (2,))
    assert as_array([[2**64 - 1, 1]], large).tolist() == [[2**64 - 1, 1]]
    assert as_array([2**53 + 1, 2.0], Y).tolist() == [2**53 + 1, 2]


def test_a_description_is_read_once_until_it_changes(tmp_path: Path) -> None:
    assert endpoint_of("kserve-v1") is endpoint_of("kserve-v1")
    file = tmp_path / "mine.json"
    file.write_text(DESCRIBED % "before")
    os.utime(file, (1, 1))
    assert endpoint_of(str(file)) is endpoint_of(str(file))
    file.write_text(DESCRIBED % "after")
    os.utime(file, (2, 2))
    assert endpoint_of(str(file)).about == "after"
