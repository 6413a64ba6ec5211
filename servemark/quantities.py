"""Options as they are given: text, read and checked against a bound or a set of words."""

import math
from collections.abc import Iterable
from decimal import Decimal

from servemark.errors import OptionError


def one_of(what: str, value: str, choices: Iterable[str]) -> str:
    """Read one of a set of words. Raises OptionError."""
    choices = list(choices)
    if value not in choices:
        raise OptionError(f"{what} {value!r} is unknown", fix=f"one of: {', '.join(choices)}")
    return value


def number(flag: str, value: object) -> float:
    """Read a finite number. Raises OptionError."""
    try:
        result = float(str(value))
    except ValueError:
        result = math.nan
    if not math.isfinite(result):
        raise OptionError(f"{flag} {value!r} is not a number", fix=f"write it like {flag} 10")
    return result


def optional_number(flag: str, value: object) -> float | None:
    """Read a number, None where nothing was given."""
    return None if value in (None, "") else number(flag, value)


def at_least(flag: str, value: object, least: float) -> float:
    """Read a number that must not lie below `least`. Raises OptionError."""
    result = number(flag, value)
    if result < least:
        raise OptionError(f"{flag} {result:g} must be at least {least:g}", fix=f"raise {flag}")
    return result


def whole(flag: str, value: object, least: int) -> int:
    """Read a whole number that must not lie below `least`. Raises OptionError."""
    result = at_least(flag, value, least)
    if result != int(result):
        raise OptionError(f"{flag} {result:g} is not a whole number", fix=f"write it like {flag} {max(least, 1)}")
    return int(result)


def above(flag: str, value: object, bound: float) -> float:
    """Read a number that must lie above `bound`. Raises OptionError."""
    result = number(flag, value)
    if result <= bound:
        raise OptionError(f"{flag} {result:g} must be above {bound:g}", fix=f"raise {flag}")
    return result


def text_of(number: float) -> str:
    """Write a number so that reading it gives the very same one: 15, 0.1, 0.00001."""
    return format(Decimal(repr(number)).normalize(), "f")
