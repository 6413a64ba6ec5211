"""Rows of one .npz, and perf_analyzer's folder of raw tensors and input JSON in all its forms."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.inputs.files import from_npz, from_npz_folder, from_raw, has_validation, raw_files, read_steps
from loadgen.kserve.tensors import to_bytes
from servemark.errors import InputDataError
from servemark.workload import Tensor, Workload
from tests.support.any_workload import any_workload

MODEL = any_workload(
    inputs=(Tensor("x", "FP32", (-1, 2)), Tensor("text", "BYTES", (2,)), Tensor("w", "INT8", (1,), optional=True)),
    outputs=(),
)
ARRAYS: dict[str, Any] = {"x": np.arange(8.0).reshape(2, 2, 2), "text": np.array([["a", "b"], ["ü", ""]])}
STEPPED = any_workload(
    inputs=(Tensor("x", "FP32", (-1, 2)), Tensor("text", "BYTES", (2,)), Tensor("mask", "BOOL", (1,), optional=True)),
    outputs=(Tensor("y", "INT32", (1,)), Tensor("z", "FP32", (1,))),
)
TEXT = ["a", "ü"]


def test_each_row_is_a_sample(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", **ARRAYS)
    first, second = from_npz(tmp_path / "in.npz", MODEL)
    assert first["x"].tolist() == [[0, 1], [2, 3]]
    assert first["x"].dtype == np.float32
    assert second["text"].tolist() == ["ü".encode(), b""]
    assert "w" not in first


def test_arrays_of_other_lengths_or_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", **{**ARRAYS, "x": np.zeros((3, 2, 2))})
    with pytest.raises(InputDataError, match="differ in it: x 3, text 2"):
        list(from_npz(tmp_path / "in.npz", MODEL))
    np.savez(tmp_path / "in.npz", x=ARRAYS["x"])
    with pytest.raises(InputDataError, match="has no array 'text'; it holds x"):
        list(from_npz(tmp_path / "in.npz", MODEL))


def test_a_file_without_any_input_is_refused(tmp_path: Path) -> None:
    optional = replace(MODEL, inputs=tuple(replace(tensor, optional=True) for tensor in MODEL.inputs))
    np.savez(tmp_path / "in.npz", other=np.zeros(3))
    with pytest.raises(InputDataError, match=r"holds no input of .*: other"):
        list(from_npz(tmp_path / "in.npz", optional))


def test_fractions_are_rounded_and_none_becomes_infinite(tmp_path: Path) -> None:
    text = {"text": ARRAYS["text"][:1]}
    np.savez(tmp_path / "in.npz", x=np.array([[[0.1, np.inf]]]), **text)
    [sample] = from_npz(tmp_path / "in.npz", MODEL)
    assert sample["x"].tolist() == [[np.float32(0.1), np.inf]]
    np.savez(tmp_path / "in.npz", x=np.array([[[0.1, 1e300]]]), **text)
    with pytest.raises(InputDataError, match=r"'x' \(FP32\) cannot be read: a value is too large for FP32"):
        list(from_npz(tmp_path / "in.npz", MODEL))


@pytest.mark.parametrize(("value", "told"), [(0.1, True), (0.5, False), (np.nan, False)])
@pytest.mark.parametrize("kind", ["f8", "f4"])
def test_float64_that_loses_digits_is_rounded_with_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, value: float, told: bool
) -> None:
    x = np.array([[[value, 1]]] * 3, kind)
    np.savez(tmp_path / "in.npz", x=x, text=np.repeat(ARRAYS["text"][:1], 3, axis=0))
    assert len(list(from_npz(tmp_path / "in.npz", MODEL))) == 3
    words = f"{tmp_path}/in.npz: 'x' is float64 and is rounded to FP32, the model's datatype\n"
    assert capsys.readouterr().err == (words if told and kind == "f8" else "")


def test_a_folder_of_float64_is_spoken_of_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        np.savez(tmp_path / f"{number}.npz", x=np.array([[0.1, number]]), text=ARRAYS["text"][0])
    assert len(list(from_npz_folder(tmp_path, MODEL))) == 3
    assert capsys.readouterr().err.count("rounded to FP32") == 1


@pytest.mark.parametrize("kind", ["c8", "c16"])
@pytest.mark.parametrize("values", [[[[1 + 2j, 0]]], [[[1 + 0j, 0]]]])
@pytest.mark.parametrize("name", ["x", "w"])
def test_complex_values_are_refused(tmp_path: Path, name: str, values: list[Any], kind: str) -> None:
    """Also those without an imaginary part: the array was meant for something else."""
    arrays = {"x": np.zeros((1, 1, 2)), "text": ARRAYS["text"][:1], name: np.array(values, kind)}
    np.savez(tmp_path / "in.npz", **arrays)
    with pytest.raises(InputDataError, match=rf"{name!r} .* its values are complex \(complex") as caught:
        list(from_npz(tmp_path / "in.npz", MODEL))
    assert "magnitude" in str(caught.value.fix)


def test_raw_files_are_one_sample_and_strings_are_lines(tmp_path: Path) -> None:
    assert raw_files(tmp_path, MODEL) is None
    (tmp_path / "x").write_bytes(np.arange(4, dtype="f4").tobytes())
    with pytest.raises(InputDataError, match="has no file for input 'text'; it has x"):
        list(from_raw(raw_files(tmp_path, MODEL) or {}, MODEL))
    (tmp_path / "text").write_text("one\nzwölf\n")
    [sample] = from_raw(raw_files(tmp_path, MODEL) or {}, MODEL)
    assert sample["x"].tolist() == [[0, 1], [2, 3]]
    assert sample["text"].tolist() == [b"one", "zwölf".encode()]
    (tmp_path / "x").write_bytes(b"12345")
    with pytest.raises(InputDataError, match="x cannot be read"):
        list(from_raw(raw_files(tmp_path, MODEL) or {}, MODEL))


def test_a_server_s_name_leads_to_no_other_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"1234")
    (tmp_path / "in").mkdir()
    assert raw_files(tmp_path / "in", any_workload((Tensor("../secret", "FP32", (1,)),), ())) is None


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'shape': (", None])
def test_an_archive_that_cannot_be_read_is_named(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "bad.npz"
    np.savez(file, x=ARRAYS["x"][0], text=ARRAYS["text"][0])
    file.write_bytes(file.read_bytes()[:150] if content is None else content)
    with pytest.raises(InputDataError, match=r"bad\.npz cannot be read"):
        list(from_npz_folder(tmp_path, MODEL))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros(3)}, r"bad\.npz: 'x' has 3 elements"),
        ({"x": np.array(["a", "b"])}, "'x' .FP32. cannot be read"),
        ({"w": np.array([np.nan])}, "'w' .INT8. cannot be read: nan is not INT8"),
        ({"w": np.array([2**31])}, "'w' .INT8. cannot be read: .* is not INT8"),
    ],
)
def test_arrays_that_are_not_an_input_are_named(arrays: dict[str, Any], words: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", **{"x": ARRAYS["x"][0], "text": ARRAYS["text"][0], **arrays})
    with pytest.raises(InputDataError, match=words):
        list(from_npz_folder(tmp_path, MODEL))


def written(folder: Path, document: Any) -> Path:
    path = folder / "in.json"
    path.write_text(json.dumps(document))
    return path


def steps(folder: Path, document: Any, workload: Workload = STEPPED) -> list[Any]:
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
    model = any_workload([Tensor("x", datatype, (2,))], [])
    return steps(folder, {"data": [{"x": values}]}, model)[0].inputs["x"].tolist()


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
        ({"x": json.loads("[" * 200 + "1" + "]" * 200), "text": TEXT}, "'x' .FP32. cannot be read"),
        ({"x": {"content": [1, 2], "shape": [10**12, 2]}, "text": TEXT}, "has 2 elements"),
        ({"x": {"content": [1, 2], "shape": [-1, 2]}, "text": TEXT}, "does not fit"),
        ({"x": {"content": [1, 2], "shape": [True, 2]}, "text": TEXT}, "does not fit"),
        ({"x": {"content": {"b64": "AAAAAAAAAAA="}, "shape": [True, 2]}, "text": TEXT}, "does not fit"),
        ({"x": [1, 2], "text": ["\ud800", "a"]}, "surrogates not allowed"),
        ({"x": [1, 2], "text": {"b64": "////fw=="}}, "4 bytes are not 2 elements"),
        ({"x": [1, 2], "text": TEXT, "mask": ["false"]}, "its values are not numbers"),
        ({"x": [1, 2], "text": TEXT, "mask": [2]}, "2 is not BOOL"),
        ({"z" * 10**6: [1], "\x1b[2J": [1]}, "has 'z{200}'"),
        (7, r"data\[0\] is not an object"),
    ],
)
def test_a_wrong_step_is_named(step: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match=words):
        steps(tmp_path, {"data": [step]})


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"data": 5}', '{"data": "x"}', '{"data": {"x": 1}}', '{"data": [[[{}]]]}', "\0" * 9,
     '{"data": ' + "[" * 10**5, '{"data": [{"x": ' + "9" * 5000 + "}]}", '{"data": [], "validation_data": 5}',
     "\0\xff"],
    ids=["empty", "a list", "no data", "a number", "a text", "an object", "streams of streams", "zeros", "deep",
         "5,000 digits", "answers that are a number", "not UTF-8"],
)  # fmt: skip
def test_what_is_no_document_is_an_error_with_words(text: str, tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputDataError, match=r"(?s)in\.json.*fix: (perf_analyzer's input JSON|.*UTF-8)"):
        list(read_steps(path, STEPPED))
    assert has_validation(path) is ("validation_data" in text)


def test_a_shape_has_to_be_said_where_two_sizes_are_open(tmp_path: Path) -> None:
    model = any_workload(inputs=(Tensor("x", "FP32", (-1, -1)),), outputs=())
    with pytest.raises(InputDataError, match=r'4 elements, shape \[-1, -1\] is expected; \{"content"'):
        steps(tmp_path, {"data": [{"x": [1, 2, 3, 4]}]}, model)


def test_as_many_right_outputs_as_steps(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="1 steps of data and 0 of validation_data"):
        steps(tmp_path, {"data": [{"x": [1, 2], "text": TEXT}], "validation_data": []})
