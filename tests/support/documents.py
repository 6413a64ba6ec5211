"""Documents as their published schema describes them."""

import functools
from typing import Any, Literal, get_args, get_origin, is_typeddict

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from servemark.results.kinds import fields_of, json_schema


@functools.cache
def _validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(json_schema(kind, closed=True))


def validated(document: Any) -> Any:
    """The document itself: its schema finds no key missing, unknown or of another type."""
    error = best_match(_validator(document.get("kind", "series")).iter_errors(document))
    assert error is None, f"{error.json_path}: {error.message}"
    return document


def filled(kind: type, /, **known: Any) -> dict[str, Any]:
    """A document of a type with these values; any other is null where it may be, and else the least of its type."""
    fields = fields_of(kind).items()
    return {key: _least(hint) for key, (hint, _, always) in fields if always and key not in known} | known


def _least(hint: Any) -> Any:
    parts = get_args(hint)
    if type(None) in parts:
        return None
    if get_origin(hint) is Literal:
        return parts[0]
    return filled(hint) if is_typeddict(hint) else (get_origin(hint) or hint)()
