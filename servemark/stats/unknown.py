"""Unknown figures: each is made with its reason, and a document holds it as null with `<key>_reason` beside it."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, cast, get_args, get_type_hints

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True)
class Unknown:
    """A figure that is not known, and why, until `explained` writes both into its group."""

    reason: str


def unknown(reason: str) -> T | None:
    """Return an unknown figure: a type checker takes it wherever a document's type allows null, and nowhere else."""
    return cast("T | None", Unknown(reason))


def or_unknown(value: T | None, reason: str) -> T | None:
    """Return a figure, or an unknown one if there is none."""
    return unknown(reason) if value is None else value


def unknown_group(kind: Callable[..., T], reason: str) -> T:
    """Return a TypedDict with each key that may be null unknown, for one reason; its other keys are the caller's."""
    return cast(T, _explained(dict.fromkeys(_nullable(kind), Unknown(reason))))


@functools.cache
def _nullable(kind: Any) -> tuple[str, ...]:
    required: frozenset[str] = getattr(kind, "__required_keys__")  # noqa: B009 - mypy knows no such attribute
    return tuple(key for key, hint in get_type_hints(kind).items() if key in required and type(None) in get_args(hint))


def explained(make: Callable[P, T]) -> Callable[P, T]:
    """Write unknown figures of what a function returns as documents hold them: null, the reason beside it."""

    @functools.wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> T:
        return cast(T, _explained(make(*args, **kwargs)))

    return made


def _explained(value: Any) -> Any:
    if isinstance(value, list):
        return [_explained(each) for each in value]
    if type(value) is tuple:
        return tuple(_explained(each) for each in value)
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, each in value.items():
        if isinstance(each, Unknown):
            found |= {key: None, f"{key}_reason": each.reason}
        else:
            found[key] = _explained(each)
    return found
