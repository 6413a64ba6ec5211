"""Values of flags that are more than a number, as they are written and read: stages, sizes of inputs, versions."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from servemark.errors import OptionError
from servemark.quantities import RATES, SECONDS, SHARES, exact_number, number, part_of, text_of, whole

AUTO: Literal["auto"] = "auto"
MAX_CANCELLED = 0.5
"""Largest share of requests that are given up: the others are measured."""
MAX_RUNS = 100
"""Of a range."""
T = TypeVar("T")


def warm_up(what: str, given: str) -> float | str:
    """Read seconds, or `auto`. Raises OptionError."""
    return AUTO if given == AUTO else number(what, given, SECONDS, ge=0)


def numbers_text(value: float | tuple[float, float] | str) -> str:
    """Write what `warm_up`, `cancellation` and `bounds` read: a word, a number, or numbers with colons between."""
    if isinstance(value, str):
        return value
    return ":".join(map(text_of, value if isinstance(value, tuple) else [value]))


def think_time(what: str, given: str) -> tuple[float, float]:
    """Read seconds, or LEAST:MOST. Raises OptionError."""
    least, _, most = given.partition(":")
    first = number(what, least, SECONDS, ge=0)
    return first, number(what, most, SECONDS, ge=0) if most else first


def think_time_text(value: tuple[float, float]) -> str:
    """Write what `think_time` reads."""
    least, most = map(text_of, value)
    return least if least == most else f"{least}:{most}"


def cancellation(what: str, given: str) -> tuple[float, float]:
    """Read SHARE:SECONDS. Raises OptionError."""
    share, colon, after = given.partition(":")
    example = "5%:200ms"
    if not colon:
        raise _not_like(what, given, example)
    with part_of(_like(what, example)):
        found = number(f"{what}: share", share, SHARES, gt=0)
        seconds = number(f"{what}: seconds", after, SECONDS, ge=0)
    if found > MAX_CANCELLED:
        raise OptionError(
            f"{what}: share {found:g} is above {MAX_CANCELLED:g}", fix="lower it: the others are measured"
        )
    return found, seconds


def stages(what: str, given: str, stage: Callable[[float, float, float | None], T]) -> tuple[T, ...]:
    """Read "10:100,10:100-400" (seconds:rate; two rates are a ramp). Raises OptionError."""
    found = []
    example = f'write it like {what} "10:100,10:400" (seconds:rate)'
    for part in given.split(","):
        duration, separator, rate = part.strip().partition(":")
        if not separator:
            raise OptionError(f"{what}: {part.strip()!r} is not SECONDS:RATE", fix=example)
        # A minus after an e belongs to a number.
        ramp = re.fullmatch(r"(.*[^eE])-(.+)", rate)
        with part_of(example):
            seconds = number(f"{what}: seconds", duration, SECONDS, gt=0)
            first, *last = [number(f"{what}: rate", each, RATES, ge=0) for each in (ramp.groups() if ramp else [rate])]
        found.append(stage(seconds, first, last[0] if last else None))
    return tuple(found)


def stages_text(value: Sequence[Any]) -> str:
    """Write what `stages` reads."""
    rates = [[stage.rate, *([] if stage.to_rate is None else [stage.to_rate])] for stage in value]
    parts = zip((stage.duration_s for stage in value), rates, strict=True)
    return ",".join(f"{text_of(seconds)}:{'-'.join(map(text_of, each))}" for seconds, each in parts)


def bounds(what: str, given: str) -> tuple[float, float] | str:
    """Read LOW:HIGH of a search, or `auto`. Raises OptionError."""
    if given == AUTO:
        return AUTO
    example = f"{_like(what, '500:4000')}, or alone"
    with part_of(example):
        parts = [number(what, part, RATES) for part in given.split(":")]
    if len(parts) != 2 or not 0 < parts[0] < parts[1]:
        raise OptionError(f"{what} {given!r} is not LOW:HIGH", fix=example)
    return parts[0], parts[1]


def span(each: Callable[[str, str], float]) -> Callable[[str, str], tuple[float, ...]]:
    """Return a reader of START:END[:STEP], which gives the values; both ends belong to it. `each` reads a number."""

    def read(flag: str, text: str) -> tuple[float, ...]:
        example = _like(flag, "1:16:5")
        with part_of(example):
            parts = [each(flag, part) for part in text.split(":")]
        if len(parts) not in (2, 3):
            raise OptionError(f"{flag} {text!r} is not START:END[:STEP]", fix=example)
        start, end, step = parts if len(parts) == 3 else (*parts, 1)
        if step <= 0 or end < start:
            raise OptionError(f"{flag} {text!r} needs START <= END and a STEP above 0", fix=example)
        # The end belongs to the range also where floating-point steps fall short of it by a hair.
        steps = (end - start) / step + 1e-9
        if steps >= MAX_RUNS:
            raise OptionError(f"{flag} {text!r} asks for {steps + 1:.6g} runs, at most {MAX_RUNS}", fix="raise STEP")
        count = math.floor(steps) + 1
        return tuple(start + index * step for index in range(count))

    return read


def shapes(what: str, given: str) -> dict[str, tuple[int, ...]]:
    """Read NAME:3,224,224 of several inputs. Raises OptionError."""
    example = "NAME:3,224,224"
    named = _named(what, given, example).items()
    with part_of(_like(what, example)):
        return {name: tuple(whole(what, size, 0) for size in sizes) for name, sizes in named}


def shapes_text(value: Mapping[str, tuple[int, ...]]) -> str:
    """Write what `shapes` reads."""
    return ",".join(f"{name}:{','.join(map(str, sizes))}" for name, sizes in value.items())


def tensors(what: str, given: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Read NAME:FP32:-1,3,224,224 of several tensors: name -> datatype and shape. Raises OptionError."""
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    example = "NAME:FP32:-1,4"
    for kind_of, sizes in _named(what, given, example).items():
        name, _, datatype = kind_of.rpartition(":")
        if not name:
            raise _not_like(what, given, example)
        with part_of(_like(what, example)):
            found[name] = datatype, tuple(whole(what, size, -1) for size in sizes)
    return found


def tensors_text(value: Mapping[str, tuple[str, tuple[int, ...]]]) -> str:
    """Write what `tensors` reads."""
    return ",".join(f"{name}:{datatype}:{','.join(map(str, shape))}" for name, (datatype, shape) in value.items())


def ranges(what: str, given: str) -> dict[str, tuple[int | float, int | float]]:
    """Read NAME:LEAST:MOST of several inputs, whole numbers exactly. Raises OptionError."""
    found: dict[str, tuple[int | float, int | float]] = {}
    example = "ids:0:30521"
    for least_of, values in _named(what, given, example).items():
        name, _, least = least_of.rpartition(":")
        if not name or len(values) != 1:
            raise _not_like(what, given, example)
        with part_of(_like(what, example)):
            found[name] = exact_number(what, least), exact_number(what, values[0])
        if found[name][0] > found[name][1]:
            raise OptionError(f"{what} {name}:{least}:{values[0]} ends before it begins", fix=f"{what} NAME:LEAST:MOST")
    return found


def ranges_text(value: Mapping[str, tuple[float, float]]) -> str:
    """Write what `ranges` reads."""
    return ",".join(f"{name}:{text_of(least)}:{text_of(most)}" for name, (least, most) in value.items())


def versions(_: str, given: str) -> dict[str, str]:
    """Read names of models, each perhaps with :VERSION."""
    parts = [part.strip().partition(":") for part in given.split(",") if part.strip()]
    return {name: version for name, _, version in parts}


def versions_text(value: Mapping[str, str]) -> str:
    """Write what `versions` reads."""
    return ",".join(f"{name}:{version}" if version else name for name, version in value.items())


def _named(what: str, given: str, example: str) -> dict[str, list[str]]:
    """Read NAME:a,b,NAME:c: what follows a name's last colon, split at commas. Raises OptionError."""
    found: dict[str, list[str]] = {}
    name = ""
    for part in filter(None, (part.strip() for part in given.split(","))):
        begins, colon, value = part.rpartition(":")
        if colon and begins:
            name = begins
            found[name] = [value] if value else []
        elif name and not colon:
            found[name].append(part)
        else:
            raise _not_like(what, part, example)
    return found


def _not_like(what: str, given: str, example: str) -> OptionError:
    return OptionError(f"{what} {given!r} cannot be read", fix=_like(what, example))


def _like(what: str, example: str) -> str:
    return f"write it like {what} {example}"
