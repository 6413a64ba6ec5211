"""Check of a foreign document against its type: every key is there, of its type, and each number is finite."""

import types
from typing import Any, Literal, Union, cast, get_args, get_origin, is_typeddict

from servemark.results.schema.json_schema import fields_of

LARGEST = 1e300
"""Limit for a number: no figure comes near it, and NaN and infinity fail the comparison."""
_PLAIN: dict[Any, tuple[type, ...]] = {
    bool: (bool,),
    int: (int,),
    float: (int, float),
    str: (str,),
    type(None): (type(None),),
}


def defect(value: object, kind: Any, at: str = "the document") -> str | None:
    """Describe the first value that does not fit the type; None if all fit. Further keys are allowed."""
    origin, parts = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        return _of_object(value, kind, at)
    if origin in {Union, types.UnionType}:
        found = [defect(value, part, at) for part in parts]
        return None if None in found else found[0]
    if origin in {list, dict}:
        return _among(value, origin, parts[-1], at)
    if origin is Literal:
        return None if isinstance(value, str | int) and value in parts else f"{at} is {value!r:.60}"
    return None if kind is Any else _of_plain(value, kind, at)


def _of_plain(value: object, kind: Any, at: str) -> str | None:
    if not isinstance(value, _PLAIN[kind]) or (isinstance(value, bool) and kind is not bool):
        return f"{at} is {value!r:.60}, not {kind.__name__}"
    if isinstance(value, int | float) and not abs(value) <= LARGEST:
        return f"{at} is {value!r:.60}"
    return None


def _of_object(value: object, kind: type, at: str) -> str | None:
    if not isinstance(value, dict):
        return f"{at} is {value!r:.60}, no object"
    for key, (part, _, always) in fields_of(kind).items():
        if key not in value and always:
            return f"{at} has no {key}"
        if key in value and (found := defect(value[key], part, f"{at}.{key}" if at != "the document" else key)):
            return found
    return None


def _among(value: object, container: type, part: Any, at: str) -> str | None:
    if not isinstance(value, container):
        return f"{at} is {value!r:.60}, not {container.__name__}"
    items = value.items() if isinstance(value, dict) else enumerate(cast(list[object], value))
    return next((found for key, each in items if (found := defect(each, part, f"{at}[{key!r:.60}]"))), None)
