"""Numbers as options give them: read, or refused in words that name the flag; and figures for a reader."""

from collections.abc import Callable
from typing import Any

import pytest

from servemark.errors import OptionError
from servemark.quantities import exact_number, figure, number, whole


@pytest.mark.parametrize(
    ("read", "value", "bounds", "found"),
    [
        (number, "1e3", {}, 1000.0),
        (number, -2, {}, -2.0),
        (number, "1" + "0" * 300, {}, 1e300),
        (number, "2", {"ge": 2, "le": 2}, 2.0),
        (number, "2.001", {"gt": 2}, 2.001),
        (whole, "3.0", {"least": 0}, 3),
        (whole, "1.5k", {"least": 1}, 1500),
        (whole, "1e3", {"least": 1}, 1000),
        (whole, "9007199254740993", {"least": 1}, 2**53 + 1),
        (whole, "9007199254740.993k", {"least": 1}, 2**53 + 1),
        (whole, "18446744073709551615", {"least": 0, "most": 2**64 - 1}, 2**64 - 1),
        (exact_number, "-9007199254740993", {}, -(2**53) - 1),
        (exact_number, "18446744073709551616", {}, 2**64),
        (exact_number, "0.5", {}, 0.5),
    ],
)
def test_what_is_read(read: Callable[..., float], value: Any, bounds: dict[str, int], found: float) -> None:
    assert read("-x", value, **bounds) == found
    assert type(read("-x", value, **bounds)) is type(found)


@pytest.mark.parametrize(
    ("read", "value", "bounds", "what", "fix"),
    [
        (number, "much", {}, "-x 'much' is not a number", "write it like -x 10"),
        (number, "nan", {}, "-x 'nan' is not a number", "write it like -x 10"),
        (number, "0.4", {"ge": 0.5}, "-x 0.4 must be at least 0.5", "raise -x"),
        (number, "2", {"gt": 2}, "-x 2 must be above 2", "raise -x"),
        (number, "2.5", {"le": 2}, "-x 2.5 is above 2", "lower -x"),
        (whole, "1.5", {"least": 0}, "-x 1.5 is not a whole number", "write it like -x 1"),
        (whole, "4.5", {"least": 4}, "-x 4.5 is not a whole number", "write it like -x 4"),
        (whole, f"{2**53 + 1}.5", {"least": 0}, f"-x {2**53 + 1}.5 is not a whole number", "write it like -x 1"),
        (whole, "0", {"least": 1}, "-x 0 must be at least 1", "raise -x"),
        (whole, f"{2**63}", {"least": 0}, f"-x {2**63} is above {2**63 - 1}", "lower -x"),
        (whole, "1e" + "9" * 20, {"least": 0}, f"-x '1e{'9' * 20}' is not a number", "write it like -x 10, -x 10k"),
    ],
)
def test_what_is_refused(read: Callable[..., float], value: Any, bounds: dict[str, float], what: str, fix: str) -> None:
    with pytest.raises(OptionError) as error:
        read("-x", value, **bounds)
    assert (error.value.what, error.value.fix) == (what, fix)


FIGURES = {
    "-": None, "0": 0, "0.00012": 0.0001234, "0.0001": 1e-4, "0.012": 0.01234, "0.500": 0.5, "1": 0.9999, "2": 2.0,
    "12.35": 12.345, "20": 19.9999, "20.10": 20.1, "123.5": 123.456, "1,234": 1234.5, "-0.250": -0.25,
}  # fmt: skip
"""Words -> the figure that is written so: in three digits, or more where it is large; a whole number as one."""


@pytest.mark.parametrize(("words", "value"), FIGURES.items())
def test_a_figure_has_three_digits_or_more_where_it_is_large(words: str, value: float | None) -> None:
    assert figure(value) == words
