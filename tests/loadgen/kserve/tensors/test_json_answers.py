"""Forms of JSON answers: what they let pass, and what they leave to a parser."""

import json
from typing import Any

import numpy as np
import pytest

from loadgen.kserve.http_messages import ResponseChecker, decode_outputs
from loadgen.kserve.tensors.json_answers import JsonForm
from loadgen.transport.http1_head import Head
from servemark.workload import Tensor

OUTPUTS = (Tensor("y", "FP32", (3,)), Tensor("n", "INT64", (1,)))


def answer(y: Any = (1.0, 2.5, -3e-7), n: Any = (7,), number: int = 1) -> bytes:
    outputs = [
        {"name": "y", "datatype": "FP32", "shape": [1, 3], "data": list(y)},
        {"name": "n", "datatype": "INT64", "shape": [1, 1], "parameters": {}, "data": list(n)},
    ]
    return json.dumps({"model_name": "m", "id": f"id-{number}", "outputs": outputs}).encode()


def test_a_form_is_that_of_answers_with_other_values_and_another_id() -> None:
    form = JsonForm.of(answer(), [3, 1])
    assert form is not None
    assert form.fits(answer(y=(1e30, 0, 12345.678), n=(-1,), number=123_456))


@pytest.mark.parametrize(
    "body",
    [
        answer(y=(1, 2)),
        answer(y=(1, 2, 3, 4)),
        answer(y=(1, 2, "x")),
        answer(y=(1, 2, float("nan"))),
        answer(y=(1, 2, None)),
        answer(y=((1, 2, 3),)),
        answer().replace(b'"n"', b'"N"'),
        answer() + b" ",
        answer()[:-1],
        answer()[:40],
        b"",
    ],
)
def test_all_else_is_left_to_the_parser(body: bytes) -> None:
    form = JsonForm.of(answer(), [3, 1])
    assert form is not None
    assert not form.fits(body)


def test_no_form_of_what_cannot_be_counted() -> None:
    assert JsonForm.of(answer(y=((1, 2, 3),)), [3, 1]) is None
    assert JsonForm.of(answer(), [3]) is None
    assert JsonForm.of(answer(y=("a", "b", "c")), [3, 1]) is None
    assert JsonForm.of(b'{"outputs":[{"name":"y","shape":[1,0],"data":[]}]}', [0]) is None


def test_the_checker_judges_each_answer_as_the_parser_would() -> None:
    rng = np.random.default_rng(0)
    checker, head = ResponseChecker(OUTPUTS, 1), Head(200, 0, None, keep_alive=True)
    for number in range(50):
        assert checker.judge(head, answer(y=rng.normal(size=3), number=number)) is None
        assert checker.judge(head, answer(y=rng.normal(size=4), number=number)) == "wrong_size"
        assert checker.judge(head, answer(n=("x",), number=number)) == "malformed_response"
    assert len(checker._forms) == 1


def test_parameters_that_are_null_are_none() -> None:
    """KServe's Python server writes every field."""
    outputs = [{"name": "y", "datatype": "FP32", "shape": [1, 3], "parameters": None, "data": [1.0, 2.0, 3.0]}]
    body = json.dumps({"model_name": "m", "model_version": None, "parameters": None, "outputs": outputs}).encode()
    head = Head(200, len(body), None, keep_alive=True)
    assert ResponseChecker(OUTPUTS[:1], 1).judge(head, body) is None
    assert decode_outputs(head, body, OUTPUTS[:1])["y"].tolist() == [[1, 2, 3]]
