"""Values of --shape and --input-range, as text and back."""

import pytest

from servemark.documents.request import Inputs
from servemark.errors import OptionError
from tests.support.load_config import parse


def read(*flags: str) -> Inputs:
    return parse(flags).inputs


def test_names_may_hold_colons_and_slashes() -> None:
    found = read("--shape=serving_default_x:0:3,224,224,a/b:5,scalar:", "--input-range=ids:0:30521,x:0:-1.5:2")
    assert found.shape == {"serving_default_x:0": (3, 224, 224), "a/b": (5,), "scalar": ()}
    assert found.input_range == {"ids": (0, 30521), "x:0": (-1.5, 2)}


def test_whole_numbers_of_a_range_stay_what_they_are() -> None:
    [ends] = read("--input-range=ids:9007199254740993:18446744073709551615").input_range.values()
    assert ends == (9007199254740993, 18446744073709551615)
    assert [*map(type, ends)] == [int, int]


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--shape=3,224", "--shape '3' cannot be read.*\n.*--shape NAME:3,224,224"),
        ("--shape=x:3.5", "--shape 3.5 is not a whole number"),
        ("--shape=x:-1", "--shape -1 must be at least 0"),
        ("--shape=:3", "--shape ':3' cannot be read"),
        ("--input=x:4", "--input 'x:4' cannot be read.*\n.*--input NAME:FP32:-1,4"),
        ("--input=x:FP32:-2", "--input -2 must be at least -1"),
        ("--input=x:FP32:4", "needs its inputs and its outputs"),
        ("--input-range=ids:5", "cannot be read"),
        ("--input-range=ids:0:5,6", "cannot be read"),
        ("--input-range=ids:a:5", "--input-range 'a' is not a number"),
        ("--input-range=ids:9:5", "ends before it begins"),
        ("--string-length=-1", "--string-length -1 must be at least 0"),
    ],
)
def test_what_cannot_be_read(flag: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read(flag)
