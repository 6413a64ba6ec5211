"""--shape, --range and the strings' flags, as text and back."""

from argparse import Namespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.load.input_options import InputOptions
from servemark.errors import OptionError
from tests.support.load_config import config


def read(**given: str) -> InputOptions:
    return InputOptions.from_options(
        Namespace(**{"shape": "", "range": "", "string_length": "128", "string_data": "", **given})
    )


def test_names_may_hold_colons_and_slashes() -> None:
    found = read(shape="serving_default_x:0:3,224,224,a/b:5,scalar:", range="ids:0:30521,x:0:-1.5:2")
    assert found.shapes == {"serving_default_x:0": (3, 224, 224), "a/b": (5,), "scalar": ()}
    assert found.ranges == {"ids": (0, 30521), "x:0": (-1.5, 2)}


names = st.text("ab/:_", min_size=1).filter(lambda name: not name.endswith(":"))


@given(
    st.dictionaries(names, st.lists(st.integers(0, 9999), max_size=4).map(tuple)),
    st.dictionaries(
        names, st.tuples(st.integers(-5, 5), st.integers(6, 2**40)).map(lambda p: (float(p[0]), float(p[1])))
    ),
)
def test_the_flags_say_the_same(shapes: dict[str, tuple[int, ...]], ranges: dict[str, tuple[float, float]]) -> None:
    options = InputOptions(shapes, ranges, 7, "x")
    assert read(**options.options()) == options


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"shape": "3,224"}, "--shape '3' cannot be read.*\n.*--shape NAME:3,224,224"),
        ({"shape": "x:3.5"}, "--shape 3.5 is not a whole number"),
        ({"shape": "x:-1"}, "--shape -1 must be at least 0"),
        ({"shape": ":3"}, "--shape ':3' cannot be read"),
        ({"range": "ids:5"}, "--range 'ids' cannot be read"),
        ({"range": "ids:0:5,6"}, "cannot be read"),
        ({"range": "ids:a:5"}, "--range 'a' is not a number"),
        ({"range": "ids:9:5"}, "ends before it begins"),
        ({"string_length": "-1"}, "--string-length -1 must be at least 0"),
    ],
)
def test_what_cannot_be_read(flags: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read(**flags)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--shape", "usr:1"], "--shape names 'usr', which is no input of ranking_tiny\n.*one of: user, seq"),
        (["--shape", "seq:6"], r"--shape seq:6 does not fit ranking_tiny's seq INT32\[5\]"),
        (["--range", "usr:0:1"], "--range names 'usr'"),
        (["--range", "seq:0:3000000000"], r"beyond INT32 \(-2147483648 to 2147483647\)"),
        (["--range", "seq:0.5:1"], "no whole numbers"),
    ],
)
def test_what_a_model_cannot_take(flags: list[str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        config("ranking_tiny", *flags)
