"""The wire format against two independent parsers, judgements of wrong responses, and forms of JSON answers."""

import json
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput

from loadgen.kserve.http_messages import (
    Asked,
    JsonForm,
    ResponseChecker,
    encode_request,
    error_message,
)
from loadgen.kserve.tensors import to_bytes
from loadgen.transport.http1_head import HEAD_END, Head
from servemark.errors import OptionError
from servemark.workload import Tensor, get, workloads
from servemark.workload.tensor import NUMPY_DTYPES
from tests.golden import tensors as golden_tensors
from tests.support.zoo import tiny_names

SCORES = Tensor("scores", "FP32", (3,))
IDS = Tensor("ids", "INT64", (2,))
BATCH = 2
VALUES: dict[str, np.ndarray[Any, Any]] = {
    "scores": np.arange(6, dtype="f4").reshape(2, 3),
    "ids": np.arange(4, dtype="i8").reshape(2, 2),
}
Document = dict[str, Any]
OUTPUTS = (Tensor("y", "FP32", (3,)), Tensor("n", "INT64", (1,)))


def split(request: bytes) -> tuple[str, dict[str, str], bytes]:
    head, _, body = request.partition(HEAD_END)
    first, *lines = head.decode("ascii").split("\r\n")
    return first, {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}, body


def of_datatype(values: Any, datatype: str) -> Any:
    """Whole numbers in a datatype; as BYTES their digits."""
    return (
        np.frompyfunc(lambda value: str(value).encode(), 1, 1)(values)
        if datatype == "BYTES"
        else values.astype(NUMPY_DTYPES[datatype])
    )


@pytest.mark.parametrize("datatype", list(NUMPY_DTYPES))
def test_a_request_is_what_tritonclient_would_send(datatype: str) -> None:
    rng = np.random.default_rng(0)
    drawn = {name: rng.integers(0, 2, (BATCH, 4, 3)) for name in ("b", "a")}
    arrays = {name: of_datatype(values, datatype) for name, values in drawn.items()}
    request = encode_request("h:1", "m", arrays, [SCORES], dict.fromkeys(arrays, datatype))
    first, headers, body = split(request)
    assert first == "POST /v2/models/m/infer HTTP/1.1"
    assert headers["host"] == "h:1"
    assert int(headers["content-length"]) == len(body)

    expected = []
    for name, array in arrays.items():
        expected.append(InferInput(name, list(array.shape), datatype))
        expected[-1].set_data_from_numpy(array.astype(ml_dtypes.bfloat16) if datatype == "BF16" else array)
    outputs = [InferRequestedOutput("scores", binary_data=True)]
    triton_body, triton_length = InferenceServerClient.generate_request_body(expected, outputs=outputs)
    tensors = tuple(golden_tensors.Tensor(name, datatype, (4, 3)) for name in arrays)
    ours = golden_tensors.decode(body, int(headers["inference-header-content-length"]), tensors, BATCH)
    assert ours == golden_tensors.decode(triton_body, triton_length, tensors, BATCH)
    assert [value.raw for value in ours.values] == [to_bytes(array, datatype) for array in arrays.values()]


@pytest.mark.parametrize("name", [*workloads(), *tiny_names()])
def test_every_workload_can_be_asked(name: str) -> None:
    workload = get(name)
    sample = next(workload.samples(np.random.default_rng(0)))
    for batch in (1, 3):
        arrays = {t.name: np.stack([sample[t.name]] * batch) for t in workload.inputs}
        request = encode_request("h", name, arrays, workload.outputs, {t.name: t.datatype for t in workload.inputs})
        _, headers, body = split(request)
        tensors = tuple(golden_tensors.Tensor(t.name, t.datatype, t.shape) for t in workload.inputs)
        decoded = golden_tensors.decode(body, int(headers["inference-header-content-length"]), tensors, batch)
        assert decoded.batch == batch
        assert decoded.outputs == dict.fromkeys([t.name for t in workload.outputs], True)


def test_a_view_is_sent_in_its_order() -> None:
    array = np.arange(12, dtype="f4").reshape(3, 4).T
    body = encode_request("h", "m", {"x": array}, [], {"x": "FP32"}).partition(HEAD_END)[2]
    assert body.endswith(array.copy().tobytes())


def test_a_model_name_cannot_break_the_head() -> None:
    arrays, datatypes = {"x": np.zeros((1, 1), "f4")}, {"x": "FP32"}
    request = encode_request("h", "my model/1", arrays, [], datatypes)
    assert request.startswith(b"POST /v2/models/my%20model%2F1/infer HTTP/1.1\r\nHost: h\r\n")
    with pytest.raises(OptionError, match="control characters"):
        encode_request("h", "m HTTP/1.1\r\nX: y", arrays, [], datatypes)


def document(*, binary: bool = True) -> Document:
    outputs: list[Document] = []
    for tensor in (SCORES, IDS):
        array = VALUES[tensor.name]
        output: Document = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(array.shape)}
        output |= {"parameters": {"binary_data_size": array.nbytes}} if binary else {"data": array.ravel().tolist()}
        outputs.append(output)
    return {"model_name": "m", "outputs": outputs}


def body_of(content: Any, *, binary: bool = True) -> tuple[Head, bytes]:
    text = json.dumps(content).encode()
    body = text + (VALUES["scores"].tobytes() + VALUES["ids"].tobytes() if binary else b"")
    return Head(200, len(body), len(text) if binary else None, keep_alive=True), body


def checker() -> ResponseChecker:
    return ResponseChecker([SCORES, IDS], BATCH)


@pytest.mark.parametrize("binary", [True, False])
def test_a_right_response_is_right_and_decodes_like_tritonclient(binary: bool) -> None:
    head, body = body_of(document(binary=binary), binary=binary)
    assert checker().judge(head, body) is None
    theirs = InferenceServerClient.parse_response_body(body, header_length=head.json_length)
    ours = checker().decode(head, body, [SCORES, IDS])
    for name, array in VALUES.items():
        np.testing.assert_array_equal(ours[name], array)
        np.testing.assert_array_equal(theirs.as_numpy(name), array)


def test_more_outputs_than_asked_for_are_skipped() -> None:
    head, body = body_of(document())
    assert ResponseChecker([IDS], BATCH).judge(head, body) is None
    decoded = checker().decode(head, body, [IDS])
    assert decoded.keys() == {"ids"}
    np.testing.assert_array_equal(decoded["ids"], VALUES["ids"])


def edit(index: int, **changes: Any) -> Callable[[Document], Any]:
    def change(content: Document) -> Document:
        content["outputs"][index] |= changes
        return content

    return change


def sized(index: int, size: int) -> Callable[[Document], Any]:
    return edit(index, parameters={"binary_data_size": size})


def drop(key: str) -> Callable[[Document], Any]:
    def change(content: Document) -> Document:
        del content["outputs"][0][key]
        return content

    return change


WRONG: list[tuple[Callable[[Document], Any], str]] = [
    (edit(0, shape=[2, 2]), "wrong_shape"),
    (edit(0, shape=[1, 3]), "wrong_shape"),  # the batch
    (edit(0, shape=[2, 3, 1]), "wrong_shape"),
    (edit(0, shape=[3, 2]), "wrong_shape"),  # as many elements
    (edit(0, shape="23"), "wrong_shape"),
    (edit(0, shape=None), "wrong_shape"),
    (edit(1, datatype="INT32"), "wrong_datatype"),
    (edit(1, name="other"), "missing_output"),
    (lambda content: content | {"outputs": content["outputs"][:1]}, "missing_output"),
    (lambda content: content | {"outputs": {}}, "missing_output"),
    (lambda _: {"outputs": 7}, "malformed_response"),
    (lambda _: {"error": "no"}, "malformed_response"),
    (lambda _: ["outputs"], "malformed_response"),
    (lambda _: None, "malformed_response"),
    (drop("name"), "malformed_response"),
    (drop("datatype"), "wrong_datatype"),
    (drop("shape"), "wrong_shape"),
]


WRONG_BINARY: list[tuple[Callable[[Document], Any], str]] = [
    (drop("parameters"), "missing_output"),  # described, but neither data nor binary
    (sized(0, 20), "wrong_size"),
    (edit(0, parameters={"binary_data_size": "many"}), "malformed_response"),
    (edit(0, parameters=[1]), "malformed_response"),
    # both sizes wrong, their sum right: the values would be cut at the wrong place
    (lambda c: sized(0, 32)(sized(1, 24)(c)), "wrong_size"),
]
WRONG_JSON: list[tuple[Callable[[Document], Any], str]] = [
    (drop("data"), "missing_output"),
    (edit(0, data=[1.0] * 5), "wrong_size"),
    (edit(0, data=["x"] * 6), "malformed_response"),
    (edit(0, data=[[1], [2, 3]]), "malformed_response"),
    (edit(1, data=[2**70] * 4), "malformed_response"),
    (lambda _: document(), "wrong_size"),  # promises binary tensors that the body does not hold
]


@pytest.mark.parametrize(
    ("change", "kind", "binary"),
    [(*each, binary) for binary, own in ((True, WRONG_BINARY), (False, WRONG_JSON)) for each in (*WRONG, *own)],
)
def test_wrong_responses(change: Callable[[Document], Any], kind: str, binary: bool) -> None:
    head, body = body_of(change(document(binary=binary)), binary=binary)
    assert checker().judge(head, body) == kind


@pytest.mark.parametrize("delta", [-4, 4])
def test_binary_part_of_another_size(delta: int) -> None:
    head, body = body_of(document())
    body = body[:delta] if delta < 0 else body + bytes(delta)
    assert checker().judge(Head(200, len(body), head.json_length, keep_alive=True), body) == "wrong_size"


def test_the_same_checker_judges_each_response_anew() -> None:
    judge = checker()
    good, bad = body_of(document()), body_of(edit(0, shape=[9, 9])(document()))
    assert [judge.judge(*response) for response in (good, bad, good, bad)] == [None, "wrong_shape"] * 2
    for number in range(3000):  # more distinct headers than are remembered
        assert judge.judge(*body_of(document() | {"id": str(number)})) is None


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "http_400"), (500, "http_500"), (503, "http_503"), (302, "http_302")]
)
def test_another_status_is_an_error_whatever_the_body(status: int, kind: str) -> None:
    _, body = body_of(document())
    assert checker().judge(Head(status, len(body), None, keep_alive=True), body) == kind


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": "queue is full"}', "HTTP 503: queue is full"),
        (b"<html>Bad gateway", "HTTP 503: <html>Bad gateway"),
        (b'{"detail": 1}', 'HTTP 503: {"detail": 1}'),
        (b"\xff\xfe", "HTTP 503: \ufffd\ufffd"),
        (b"[]", "HTTP 503: []"),
        (b"", "HTTP 503: no message"),
    ],
)
def test_the_servers_own_words(body: bytes, message: str) -> None:
    assert error_message(Head(503, len(body), None, keep_alive=True), body) == message
    redirect = Head(307, 9, None, keep_alive=True, location="https://other/v2")
    assert error_message(redirect, body) == "HTTP 307: a redirect to https://other/v2"


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(
    ("named", "error"),
    [
        ({}, None),
        ({"model_version": "2"}, None),
        ({"model_name": "other"}, "wrong_model"),
        ({"model_name": ["m"]}, "wrong_model"),
        ({"model_version": "3"}, "wrong_version"),
        ({"model_version": 3}, "wrong_version"),
    ],
)
def test_an_answer_of_another_model_or_version_is_wrong(binary: bool, named: Document, error: str | None) -> None:
    asked = ResponseChecker([SCORES, IDS], BATCH, Asked("m", frozenset({"1", "2"})))
    right, wrong = (body_of(document(binary=binary) | change, binary=binary) for change in ({}, named))
    assert asked.judge(*right) is None, "and is remembered"
    assert asked.judge(*wrong) == error
    assert asked.judge(*right) is None
    silent = {key: value for key, value in document(binary=binary).items() if key != "model_name"}
    assert asked.judge(*body_of(silent, binary=binary)) is None, "one that names no model is taken"


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
        answer(n=()),
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
    checker = ResponseChecker(OUTPUTS[:1], 1)
    assert checker.judge(head, body) is None
    assert checker.decode(head, body, OUTPUTS[:1])["y"].tolist() == [[1, 2, 3]]
