"""Numbers as options give them: read, or refused in words that name the flag."""

from collections.abc import Callable
from typing import Any

import pytest

from servemark import quantities
from servemark.errors import OptionError
from servemark.quantities import figure


@pytest.mark.parametrize(
    ("read", "value", "found"),
    [
        (lambda v: quantities.number("-x", v), "1e3", 1000.0),
        (lambda v: quantities.number("-x", v), -2, -2.0),
        (lambda v: quantities.at_least("-x", v, 2), "2", 2.0),
        (lambda v: quantities.above("-x", v, 2), "2.001", 2.001),
        (lambda v: quantities.whole("-x", v, 0), "3.0", 3),
        (lambda v: quantities.whole("-x", v, 1), "1.5k", 1500),
        (lambda v: quantities.whole("-x", v, 1), "1e3", 1000),
        (lambda v: quantities.whole("-x", v, 1), "9007199254740993", 2**53 + 1),
        (lambda v: quantities.whole("-x", v, 1), "9007199254740.993k", 2**53 + 1),
        (lambda v: quantities.whole("-x", v, 0, 2**64 - 1), "18446744073709551615", 2**64 - 1),
        (lambda v: quantities.exact_number("-x", v), "-9007199254740993", -(2**53) - 1),
        (lambda v: quantities.exact_number("-x", v), "18446744073709551616", 2**64),
        (lambda v: quantities.exact_number("-x", v), "0.5", 0.5),
        (lambda v: quantities.number("-x", v), "1" + "0" * 300, 1e300),
    ],
)
def test_what_is_read(read: Callable[[Any], float | None], value: Any, found: float | None) -> None:
    assert read(value) == found
    assert type(read(value)) is type(found)


@pytest.mark.parametrize(
    ("read", "value", "what", "fix"),
    [
        (lambda v: quantities.number("-x", v), "much", "-x 'much' is not a number", "write it like -x 10"),
        (lambda v: quantities.number("-x", v), "nan", "-x 'nan' is not a number", "write it like -x 10"),
        (lambda v: quantities.at_least("-x", v, 0.5), "0.4", "-x 0.4 must be at least 0.5", "raise -x"),
        (lambda v: quantities.above("-x", v, 2), "2", "-x 2 must be above 2", "raise -x"),
        (lambda v: quantities.whole("-x", v, 0), "1.5", "-x 1.5 is not a whole number", "write it like -x 1"),
        (lambda v: quantities.whole("-x", v, 4), "4.5", "-x 4.5 is not a whole number", "write it like -x 4"),
        (lambda v: quantities.whole("-x", v, 1), "0", "-x 0 must be at least 1", "raise -x"),
        (
            lambda v: quantities.whole("-x", v, 0),
            "9223372036854775808",
            "-x 9223372036854775808 is above 9223372036854775807",
            "lower -x",
        ),
        (
            lambda v: quantities.whole("-x", v, 0),
            "9007199254740993.5",
            "-x 9007199254740993.5 is not a whole number",
            "write it like -x 1",
        ),
        (
            lambda v: quantities.whole("-x", v, 0),
            "1e99999999999999999999",
            "-x '1e99999999999999999999' is not a number",
            "write it like -x 10, -x 10k",
        ),
    ],
)
def test_what_is_refused(read: Callable[[Any], float], value: Any, what: str, fix: str) -> None:
    with pytest.raises(OptionError) as error:
        read(value)
    assert (error.value.what, error.value.fix) == (what, fix)


@pytest.mark.parametrize(
    ("value", "words"),
    [(20.0, "20"), (19.9999, "20"),
     (20.1, "20.10"), (0.9999, "1"), (1234.0, "1,234"), (0.5, "0.500"), (1e-4, "0.0001"), (0, "0")],
)  # fmt: skip
def test_a_figure_that_rounds_to_a_whole_number_is_written_as_one(value: float, words: str) -> None:
    assert figure(value) == words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.0001234, "0.00012"),
        (0.01234, "0.012"),
        (0.5, "0.500"),
        (2.0, "2"),
        (12.345, "12.35"),
        (123.456, "123.5"),
        (1234.5, "1,234"),
        (-0.25, "-0.250"),
    ],
)
def test_figures_have_three_digits_or_more_where_they_are_large(value: float | None, text: str) -> None:
    assert figure(value) == text
