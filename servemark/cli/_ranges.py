"""The loads of a command: one, or S:E[:STEP], perf_analyzer's spelling of a range; both ends belong to it."""

import math
from typing import Any

from servemark.cli._load_flags import HOW_MUCH, LoadFlags
from servemark.errors import OptionError

MAX_POINTS = 100


def load_points(load: LoadFlags, *, max_rate: bool = False) -> list[dict[str, Any]]:
    """The runs that these options ask for, each as the locustfile's flags that make it. Raises OptionError."""
    given = {"--max-rate": max_rate, **{f"--{name.replace('_', '-')}": getattr(load, name) for name in HOW_MUCH}}
    named = [flag for flag, value in given.items() if value]
    if len(named) > 1:
        raise OptionError(f"{' and '.join(named)} exclude each other", fix="give one of them")
    if load.stages:
        return [{"stages": load.stages}]
    if load.trace:
        return [{"trace": load.trace}]
    if load.request_rate or load.request_rate_range:
        return [{"request_rate": r} for r in rates("--request-rate", load.request_rate, load.request_rate_range)]
    found = concurrencies("--concurrency", load.concurrency or "1", load.concurrency_range)
    return [{"num_users": number} for number in found]


def concurrencies(flag: str, single: str, text: str) -> list[int]:
    """The concurrencies of `flag` or `flag`-range: whole numbers from 1. Raises OptionError."""
    values = _values(flag, single, text)
    wrong = [value for value in values if value < 1 or value != int(value)]
    if wrong:
        raise OptionError(f"{flag} {wrong[0]:g} is not a whole number from 1", fix=f"write it like {flag} 8")
    return [int(value) for value in values]


def rates(flag: str, single: str, text: str) -> list[float]:
    """The rates of `flag` or `flag`-range: numbers above 0. Raises OptionError."""
    values = _values(flag, single, text)
    if any(value <= 0 for value in values):
        raise OptionError(f"{flag}: {min(values):g} is not above 0", fix=f"write it like {flag} 100")
    return values


def _values(flag: str, single: str, text: str) -> list[float]:
    if not text:
        return [_number(flag, single, f"{flag} 8")]
    ranged = f"{flag}-range"
    example = f"{ranged} 1:16:5"
    parts = [_number(ranged, part, example) for part in text.split(":")]
    if len(parts) not in (2, 3):
        raise OptionError(f"{ranged} {text!r} is not START:END[:STEP]", fix=f"write it like {example}")
    start, end, step = parts if len(parts) == 3 else (*parts, 1.0)
    if step <= 0 or end < start:
        raise OptionError(f"{ranged} {text!r} needs START <= END and a STEP above 0", fix=f"write it like {example}")
    # The end belongs to the range also where floating-point steps fall short of it by a hair.
    count = math.floor((end - start) / step + 1e-9) + 1
    if count > MAX_POINTS:
        raise OptionError(f"{ranged} {text!r} asks for {count} runs, at most {MAX_POINTS}", fix="raise STEP")
    return [start + index * step for index in range(count)]


def _number(flag: str, text: str, example: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise OptionError(f"{flag}: {text!r} is not a number", fix=f"write it like {example}")
    return value
