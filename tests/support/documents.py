"""Documents as their published schema describes them."""

import functools
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from servemark.results.kinds import json_schema


@functools.cache
def _validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(json_schema(kind, closed=True))


def validated(document: Any) -> Any:
    """The document itself: its schema finds no key missing, unknown or of another type."""
    error = best_match(_validator(document.get("kind", "series")).iter_errors(document))
    assert error is None, f"{error.json_path}: {error.message}"
    return document
