"""A failed answer's words name the output, how it is expected and how it was seen."""

import pytest

from loadgen.sut.channel import MAX_CHARACTERS, Mismatch, judge_outputs
from servemark.workload import Tensor

Y, Z = Tensor("y", "FP32", (4,)), Tensor("z", "INT64", ())


def test_a_mismatch_is_its_kind_with_words() -> None:
    found = Mismatch.of("wrong_shape", Y, [2], "FP32[2, 5]")
    assert (found, {found: 1}) == ("wrong_shape", {"wrong_shape": 1})
    assert found.words == "output 'y' is expected as FP32[2, 4], and the answer has FP32[2, 5]"
    assert type(str(found)) is str
    assert len(Mismatch.of("wrong_shape", Y, [2], "9" * 10_000).words) == MAX_CHARACTERS


@pytest.mark.parametrize(
    ("described", "words"),
    [
        ({"z": 1}, "output 'y' FP32[2, 4] is missing; the answer has z"),
        ({}, "output 'y' FP32[2, 4] is missing; the answer has none"),
        ({"y": 1}, "output 'z' INT64[2] is missing; the answer has y"),
    ],
)
def test_an_output_that_is_missing_is_named(described: dict[str, int], words: str) -> None:
    found = judge_outputs(described, (Y, Z), [2], lambda *_: None)
    assert isinstance(found, Mismatch)
    assert (found, found.words) == ("missing_output", words)


def test_the_first_output_that_is_judged_wrong_is_told() -> None:
    assert judge_outputs({"y": None, "z": 1}, (Z,), [], lambda *_: "wrong_size") == "wrong_size"
    assert judge_outputs({"y": 0, "z": 1}, (Y, Z), [], lambda seen, *_: None if seen else "first") == "first"
    assert judge_outputs({"y": 1, "z": 1}, (Y, Z), [], lambda *_: None) is None
