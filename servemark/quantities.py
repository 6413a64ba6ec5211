"""Quantities: options read and checked against a bound or a set of words, and numbers written for a reader."""

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal

from servemark.errors import OptionError

PLAIN = {"": "1"}
COUNTS = {"": "1", "k": "1000"}
SECONDS = {"": "1", "s": "1", "ms": "0.001", "us": "0.000001", "m": "60", "min": "60", "h": "3600"}
"""Units of a time in seconds, by their factors; a number without one is in seconds."""
MILLISECONDS = {"": "1", "ms": "1", "s": "1000", "us": "0.001"}
RATES = {"": "1", "/s": "1", "k": "1000", "k/s": "1000"}
"""Units of requests/s."""
SHARES = {"": "1", "%": "0.01"}
PERCENT = {"": "1", "%": "1"}
INT64, UINT64 = (1 << 63) - 1, (1 << 64) - 1
"""Greatest whole numbers of these types."""
EXACT_FLOATS = 1 << 53
"""Below it each whole number has a float of its own."""
MOST_SHOWN = 24
_NUMBER_AND_UNIT = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*(\D*)", re.IGNORECASE)


class NotANumberError(OptionError):
    """A text that is not a number with one of the units."""


@contextlib.contextmanager
def part_of(example: str) -> Iterator[None]:
    """Read numbers that are parts of a value; for one that cannot be read, the fix is this example of the whole."""
    try:
        yield
    except NotANumberError as error:
        raise OptionError(error.what, fix=example) from error


def one_of(what: str, value: str, choices: Iterable[str]) -> str:
    """Read one of a set of words. Raises OptionError."""
    choices = list(choices)
    if value not in choices:
        raise OptionError(f"{what} {value!r} is unknown", fix=f"one of: {', '.join(choices)}")
    return value


def number(
    flag: str,
    value: object,
    units: Mapping[str, str] = PLAIN,
    *,
    gt: float = -math.inf,
    ge: float = -math.inf,
    le: float = math.inf,
) -> float:
    """Read a finite number above `gt`, from `ge` to `le`, with one of the units like 3s or 1k. Raises OptionError.

    The one without a unit has the factor 1. Decimal, so that 20ms is the very same as 0.02.
    """
    found = float(_exact(flag, value, units))
    if found <= gt:
        raise OptionError(f"{flag} {found:g} must be above {gt:g}", fix=f"raise {flag}")
    if found < ge:
        raise OptionError(f"{flag} {found:g} must be at least {ge:g}", fix=f"raise {flag}")
    if found > le:
        raise OptionError(f"{flag} {found:g} is above {le:g}", fix=f"lower {flag}")
    return found


def exact_number(flag: str, value: object) -> int | float:
    """Read a finite number: a whole one of any size as it is, another one as a float. Raises OptionError."""
    result = _exact(flag, value, PLAIN)
    return int(result) if _is_whole(result) and result.adjusted() < MOST_SHOWN else float(result)


def _exact(flag: str, value: object, units: Mapping[str, str]) -> Decimal:
    """Read a number as it is written, whose float is finite. Raises OptionError."""
    match = _NUMBER_AND_UNIT.fullmatch(str(value).strip())
    if match is not None and match[2] in units:
        with contextlib.suppress(ArithmeticError):  # of an exponent of seven digits, or of twenty
            # As many digits as the product may have; the usual 28 would round.
            result = Context(prec=len(match[1]) + 20).multiply(Decimal(match[1]), Decimal(units[match[2]]))
            if math.isfinite(float(result)):
                return result
    known = ", ".join(f"{flag} 10{unit}" for unit in list(units)[:3])
    raise NotANumberError(f"{flag} {value!r} is not a number", fix=f"write it like {known}")


def _is_whole(value: Decimal) -> bool:
    return value == value.to_integral_value()


def whole(flag: str, value: object, least: int, most: int = INT64) -> int:
    """Read a whole number, like 8 or 2k, from `least` to `most`: exactly, however large. Raises OptionError."""
    result = _exact(flag, value, COUNTS)
    if result < least:
        raise OptionError(f"{flag} {_shown(result)} must be at least {least}", fix=f"raise {flag}")
    if result > most:
        raise OptionError(f"{flag} {_shown(result)} is above {most}", fix=f"lower {flag}")
    if not _is_whole(result):
        example = f"write it like {flag} {max(least, 1)}"
        raise OptionError(f"{flag} {_shown(result)} is not a whole number", fix=example)
    return int(result)


def _shown(value: Decimal) -> str:
    """Write a number of any size without an exponent where that is short."""
    plain = value.normalize()
    return format(plain if plain == value else value, "f" if -6 <= value.adjusted() < MOST_SHOWN else "")


def text_of(number: float) -> str:
    """Write a number so that reading it gives the very same one: 15, 0.1, 0.00001, 9007199254740993."""
    if isinstance(number, int):
        return str(number)
    return format(Decimal(repr(number)).normalize(), "f")


def duration_text(seconds: float) -> str:
    """Format a duration in the unit that fits: 90 s, 2.0 min."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


def figure(value: float | None) -> str:
    """Three significant digits, or more where the number is large; a dash where there is none.

    What rounds to a whole number has no decimals: 20, also of 19.999.
    """
    if value is None:
        return "-"
    if value and abs(value) < 0.0005:
        return f"{value:.2g}"
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 100 else 1 if abs(value) < 1000 else 0
    whole, point, decimals = f"{value:,.{digits}f}".partition(".")
    return whole + point + decimals if decimals.strip("0") else whole


def interval_words(ends: Sequence[float | None] | None, digits: int | None = None) -> str:
    """Format an interval: "4.70 to 4.95", a dash if there is none; an end among failed requests has no number."""
    said = (f"{end:.{digits}f}" if digits is not None and end is not None else figure(end) for end in ends or ())
    return " to ".join("beyond every answer" if each == "-" else each for each in said) or "-"


def with_interval(shown: str, ends: Sequence[float | None] | None, digits: int | None = None) -> str:
    """Format a figure with its interval, if it has one: "4.80 (4.70 to 4.95)"."""
    return f"{shown} ({interval_words(ends, digits)})" if ends else shown
