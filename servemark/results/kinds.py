"""Kinds of documents with their types: the check of a saved one before anything reads it, and the JSON Schema."""

import functools
import inspect
import types
from collections.abc import Mapping
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from servemark.errors import OptionError
from servemark.figures.registry import registry
from servemark.figures.value import FigureValue
from servemark.results.schema.calibration import Calibration
from servemark.results.schema.comparison import ComparisonDocument, History, SavedComparison
from servemark.results.schema.kernels import KernelsDocument
from servemark.results.schema.profile import Profile
from servemark.results.schema.run import MachineSeries, MlperfResult, PendingResult, QualityResult, Result, Series
from servemark.results.schema.search import TuningDocument
from servemark.results.schema.suite import Characterisation, SuiteDocument, Synthesis

SERIES = "series"
"""The only kind that its document does not name."""
Document = TypeVar("Document")
KINDS: dict[str, tuple[type, ...]] = {
    "load": (Result, PendingResult),
    SERIES: (Series,),
    "comparison": (ComparisonDocument,),
    "saved_comparison": (SavedComparison,),
    "tuning": (TuningDocument,),
    "suite": (SuiteDocument,),
    "mlperf": (MlperfResult,),
    "history": (History,),
    "machine_series": (MachineSeries,),
    "kernels": (KernelsDocument,),
    "quality": (QualityResult,),
    "calibration": (Calibration,),
    "profile": (Profile,),
    "characterisation": (Characterisation,),
    "synthesis": (Synthesis,),
}
"""Each kind of document, and the types that it may have."""
_REASON = {"description": "Why a figure is null.", "type": ["string", "null"]}
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
Schema = dict[str, Any]


def type_of(document: Mapping[str, Any]) -> type | None:
    """Return the type of a document by its kind; None if there is no such kind."""
    kinds = KINDS.get(str(document.get("kind", SERIES)))
    return kinds[-1 if document.get("verdict") is None else 0] if kinds else None


def conformed(document: object, kind: type[Document]) -> Document:
    """Return a foreign document as the type that it was found to have. Further keys are allowed.

    Raises ValueError with the path of a value that does not fit, like "Expected `int`, got `str` - at `$.seed`".
    """
    msgspec.convert(document, kind)  # its result lacks the further keys, the reasons of unknown figures among them
    return cast(Document, document)


def json_schema(kind: str, *, closed: bool = False) -> Schema:
    """The JSON Schema of a kind of document. Raises OptionError where there is no such kind.

    `closed` allows no keys but those described. The published schema allows more: a later version may add keys.
    """
    if kind not in KINDS:
        raise OptionError(f"unknown kind of document {kind!r}", fix=f"one of: {', '.join(KINDS)}")
    definitions: Schema = {}
    found = [_schema(each, definitions, closed=closed) for each in KINDS[kind]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"servemark {kind}",
        **(found[0] if len(found) == 1 else {"anyOf": found}),
        "$defs": definitions,
    }


@functools.cache
def fields_of(document: type) -> dict[str, tuple[Any, str, bool]]:
    """The keys of a document's type: each with its type, its description and whether it is always there."""
    required: frozenset[str] = getattr(document, "__required_keys__")  # noqa: B009 - no attribute that mypy knows
    fields = {}
    for key, hint in get_type_hints(document, include_extras=True).items():
        whole = get_args(hint)[0] if get_origin(hint) is NotRequired else hint
        described = get_origin(whole) is Annotated
        kind, description = get_args(whole)[:2] if described else (whole, "")
        fields[key] = kind, description, key in required
    return fields


def summary_of(document: type) -> str:
    """Return the text of a type's docstring."""
    return " ".join(inspect.cleandoc(document.__doc__ or "").split())


def _schema(kind: Any, definitions: Schema, *, closed: bool) -> Schema:
    """The schema of one type; those of documents within go into the definitions."""
    origin, parts = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # before its fields, which may refer to it
            definitions[kind.__name__] = _object(kind, definitions, closed=closed)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if origin in {Union, types.UnionType}:
        schemas = [_schema(part, definitions, closed=closed) for part in parts]
        plain = all(each.keys() == {"type"} for each in schemas)
        return {"type": [each["type"] for each in schemas]} if plain else {"anyOf": schemas}
    if origin is list:
        return {"type": "array", "items": _schema(parts[0], definitions, closed=closed)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(parts[1], definitions, closed=closed)}
    if origin is Literal:
        return {"enum": list(parts)}
    return {} if kind is Any else {"type": _NAMES[kind]}


def _object(document: type, definitions: Schema, *, closed: bool) -> Schema:
    properties, required = {}, []
    for key, (kind, description, always) in fields_of(document).items():
        properties[key] = {"description": description, **_schema(kind, definitions, closed=closed)}
        if key == "figures" and kind == dict[str, FigureValue]:
            reference = _schema(FigureValue, definitions, closed=closed)
            properties[key]["properties"] = {
                tag: {
                    "description": f"{figure.help} ({figure.unit.name})" if figure.unit.name else figure.help,
                    **reference,
                }
                for tag, figure in registry().items()
            }
        if always:
            required.append(key)
    return {
        "description": summary_of(document),
        "type": "object",
        "properties": properties,
        "required": required,
        "patternProperties": {"(^|_)reason$": _REASON},
        **({"additionalProperties": False} if closed else {}),
    }
