"""perf_analyzer's input JSON in all its forms."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.inputs.json_file import has_validation, read_steps
from loadgen.kserve.tensors.values import to_bytes
from servemark.errors import InputDataError
from servemark.workload import Tensor, Workload
from tests.support.any_workload import any_workload

MODEL = any_workload(
    inputs=(Tensor("x", "FP32", (-1, 2)), Tensor("text", "BYTES", (2,)), Tensor("mask", "BOOL", (1,), optional=True)),
    outputs=(Tensor("y", "INT32", (1,)), Tensor("z", "FP32", (1,))),
)
TEXT = ["a", "ü"]


def written(folder: Path, document: Any) -> Path:
    path = folder / "in.json"
    path.write_text(json.dumps(document))
    return path


def steps(folder: Path, document: Any, workload: Workload = MODEL) -> list[Any]:
    return list(read_steps(written(folder, document), workload))


def test_values_contents_base64_and_shapes(tmp_path: Path) -> None:
    raw = base64.b64encode(np.array([1, 2, 3, 4], "f4").tobytes()).decode()
    words = base64.b64encode(to_bytes(np.array([b"\xff", b""], np.object_), "BYTES")).decode()
    found = steps(
        tmp_path,
        {
            "data": [
                {"x": [1, 2, 3, 4], "text": TEXT},
                {"x": {"content": [1, 2], "shape": [1, 2]}, "text": {"content": TEXT}, "mask": [True]},
                {"x": {"b64": raw}, "text": {"b64": words}},
                {"x": {"content": {"b64": raw}, "shape": [2, 2]}, "text": TEXT},
                {"x": [[1, 2]], "text": TEXT},
            ]
        },
    )
    assert [step.inputs["x"].tolist() for step in found] == [
        [[1, 2], [3, 4]], [[1, 2]], [[1, 2], [3, 4]], [[1, 2], [3, 4]], [[1, 2]],
    ]  # fmt: skip
    assert found[0].inputs["text"].tolist() == [b"a", "ü".encode()]
    assert found[2].inputs["text"].tolist() == [b"\xff", b""]
    assert [[*step.inputs] for step in found[:2]] == [["x", "text"], ["x", "text", "mask"]]


@pytest.mark.parametrize(
    ("datatype", "values"),
    [
        ("INT64", [2**53 + 1, 1.0]),  # numpy makes float64 of both
        ("INT64", [-(2**63), 2**63 - 1]),
        ("UINT64", [2**64 - 1, 1]),
        ("UINT64", [2**53 + 1, 2.0]),
        ("INT64", [1e3, 1]),
    ],
)
def test_whole_numbers_are_what_the_file_says(datatype: str, values: list[float], tmp_path: Path) -> None:
    found = of_datatype(datatype, values, tmp_path)
    assert found == [int(each) for each in values]


@pytest.mark.parametrize(
    ("datatype", "values", "words"),
    [
        ("UINT64", [-1, 2**63], "-1 is not UINT64"),
        ("UINT64", [2**64, 1], "18446744073709551616 is not UINT64"),
        ("INT64", [-1, 2**63], "9223372036854775808 is not INT64"),
        ("INT64", [9007199254740993.0, 1], r"9007199254740992\.0 is not INT64"),
        ("INT64", [9007199254740993.0, 1.0], r"9007199254740992\.0 is not INT64"),
        ("INT32", [0.5, 1], r"0\.5 is not INT32"),
        ("INT8", [-129, 1], "-129 is not INT8"),
    ],
)
def test_a_whole_number_that_its_datatype_has_not_is_named(
    datatype: str, values: list[float], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputDataError, match=words):
        of_datatype(datatype, values, tmp_path)


def of_datatype(datatype: str, values: list[float], folder: Path) -> Any:
    """Read values of a file as a tensor of a datatype."""
    path = folder / "in.json"
    path.write_text(json.dumps({"data": [{"x": values}]}))
    [step] = read_steps(path, replace(MODEL, inputs=(Tensor("x", datatype, (2,)),)))
    return step.inputs["x"].tolist()


def test_streams_follow_each_other_and_have_their_right_outputs(tmp_path: Path) -> None:
    step = {"x": [1, 2], "text": TEXT}
    document = {"data": [[step, step], [step]], "validation_data": [[{"y": [1]}, {"y": [2]}], [{"y": 3}]]}
    found = steps(tmp_path, document)
    assert [step.where.rpartition("data")[2] for step in found] == ["[0][0]", "[0][1]", "[1][0]"]
    assert [step.outputs["y"].tolist() for step in found] == [[1], [2], [3]]
    assert has_validation(tmp_path / "in.json")
    assert not has_validation(written(tmp_path, {"data": [step]}))


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"x": [1, 2]}, r"data\[0\]: input 'text' is missing; it has x"),
        ({"x": [1, 2], "text": TEXT, "z": [1]}, r"data\[0\] has 'z', which is not an input: x, text, mask"),
        ({"x": {"content": [1, 2], "shape": [1, 3]}, "text": TEXT}, r"shape \[1, 3\] does not fit 'x' FP32\[-1, 2\]"),
        ({"x": {"content": [1, 2], "shape": "1"}, "text": TEXT}, "the shape of 'x' is '1', no list"),
        ({"x": {"content": [1, 2, 3, 4], "shape": [1, 2]}, "text": TEXT}, r"'x' has 4 elements, shape \[1, 2\]"),
        ({"x": {"values": [1]}, "text": TEXT}, "'x' has neither content nor b64"),
        ({"x": {"b64": "###"}, "text": TEXT}, "b64 of 'x' cannot be read"),
        ({"x": {"b64": "AAAA"}, "text": TEXT}, "b64 of 'x' cannot be read"),
        ({"x": [1, 2], "text": {"b64": "AAAA"}}, "b64 of 'text' cannot be read"),
        ({"x": [1, 2], "text": [1, 2]}, r"'text' \(BYTES\) cannot be read: its values are not strings"),
        ({"x": [1, 2], "text": ["a"]}, "'text' has 1 elements"),
        ({"x": [1, None], "text": TEXT}, "'x' .FP32. cannot be read: its values are not numbers"),
        ({"x": None, "text": TEXT}, "its values are not numbers"),
        ({"x": ["1", "2"], "text": TEXT}, "its values are not numbers"),
        ({"x": [1, 10**400], "text": TEXT}, "a value is too large for FP32"),
        ({"x": [[1], [2, 3]], "text": TEXT}, "'x' .FP32. cannot be read"),
        ({"x": [{}, {}], "text": TEXT}, "its values are not numbers"),
        ({"x": {"content": [1, 2], "shape": [10**12, 2]}, "text": TEXT}, "has 2 elements"),
        ({"x": {"content": [1, 2], "shape": [-1, 2]}, "text": TEXT}, "does not fit"),
        ({"x": {"content": [1, 2], "shape": [True, 2]}, "text": TEXT}, "does not fit"),
        ({"x": [1, 2], "text": ["\ud800", "a"]}, "surrogates not allowed"),
        ({"x": [1, 2], "text": {"b64": "////fw=="}}, "4 bytes are not 2 elements"),
        ({"x": [1, 2], "text": TEXT, "mask": ["false"]}, "its values are not numbers"),
        ({"x": [1, 2], "text": TEXT, "mask": [2]}, "2 is not BOOL"),
        ({"z" * 10**6: [1], "\x1b[2J": [1]}, "has 'z{200}'"),
    ],
    ids=[
        "no text",
        "an unknown input",
        "a shape that does not fit",
        "a shape of text",
        "more values than a shape",
        "neither content nor b64",
        "b64 that is none",
        "b64 of half a number",
        "b64 of half a text",
        "numbers as text",
        "a text too few",
        "null among numbers",
        "null",
        "text as numbers",
        "400 digits",
        "ragged",
        "objects as numbers",
        "a shape of 10^12",
        "a negative shape",
        "a shape of true",
        "half a surrogate",
        "b64 that announces 2 GiB",
        "text as true",
        "2 as true",
        "a name of a million letters",
    ],
)
def test_a_wrong_step_is_named(step: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match=words):
        steps(tmp_path, {"data": [step]})


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"data": 5}', '{"data": "x"}', '{"data": {"x": 1}}', '{"data": [[[{}]]]}', "\0" * 9,
     '{"data": ' + "[" * 10**5, '{"data": [{"x": ' + "9" * 5000 + "}]}", '{"data": [], "validation_data": 5}'],
    ids=["empty", "a list", "no data", "a number", "a text", "an object", "streams of streams", "zeros", "deep",
         "5,000 digits", "answers that are a number"],
)  # fmt: skip
def test_what_is_no_document_is_an_error_with_words(text: str, tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text(text)
    with pytest.raises(InputDataError, match=r"in\.json"):
        list(read_steps(path, MODEL))
    assert has_validation(path) is ("validation_data" in text)


def test_a_shape_has_to_be_said_where_two_sizes_are_open(tmp_path: Path) -> None:
    model = any_workload(inputs=(Tensor("x", "FP32", (-1, -1)),), outputs=())
    with pytest.raises(InputDataError, match=r'4 elements, shape \[-1, -1\] is expected; \{"content"'):
        steps(tmp_path, {"data": [{"x": [1, 2, 3, 4]}]}, model)


def test_as_many_right_outputs_as_steps(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="1 steps of data and 0 of validation_data"):
        steps(tmp_path, {"data": [{"x": [1, 2], "text": TEXT}], "validation_data": []})
