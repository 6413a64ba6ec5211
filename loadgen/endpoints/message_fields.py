"""Messages filled with JSON whose values may be arrays, protobuf's own messages included.

Source: protobuf, "ProtoJSON Format"; its own library writes all but arrays, of which it takes 2 µs for each number.
"""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf import descriptor_pool, wrappers_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message_factory import GetMessageClass

from servemark.errors import InputDataError

_PACKAGE = "google.protobuf."
WRAPPERS = frozenset(_PACKAGE + name for name in wrappers_pb2.DESCRIPTOR.message_types_by_name)
"""Messages of one field, `value`, whose JSON is that value."""
ANY = f"{_PACKAGE}Any"
_OF_DOUBLES = frozenset(_PACKAGE + name for name in ("Struct", "Value", "ListValue"))
DYNAMIC = _OF_DOUBLES | {ANY}
"""Messages whose content has no description."""
BY_FIELD = frozenset(_PACKAGE + name for name in ("Value", "ListValue"))
"""Those of which an answer's pointer may also name a field of the message, like number_value."""
_FORMS = {
    "Struct": "an object",
    "Value": "any JSON",
    "ListValue": "a list",
    "Any": 'an object with "@type"',
    "Empty": "{}",
    "Timestamp": 'a text like "2026-01-02T03:04:05Z"',
    "Duration": 'a text like "1.5s"',
    "FieldMask": 'a text like "name,items.score"',
}
_TYPE = "@type"
_VALUE = "value"


def is_known(kind: Any) -> bool:
    """Tell whether a message is one of protobuf's own, which have a JSON of their own."""
    name = kind.full_name
    return name in WRAPPERS or (name.startswith(_PACKAGE) and name.removeprefix(_PACKAGE) in _FORMS)


def form_of(kind: Any) -> str:
    """Describe the JSON of a message."""
    if kind.full_name in WRAPPERS:
        return 'the value alone, like 3 or "text"'
    return _FORMS[kind.full_name.removeprefix(_PACKAGE)] if is_known(kind) else "an object of the message's fields"


def fill(message: Any, document: Any) -> None:
    """Set a message by JSON whose values may be arrays. Raises ParseError, InputDataError."""
    kind = message.DESCRIPTOR
    if is_known(kind):
        _fill_known(message, document)
        return
    if not isinstance(document, dict):
        raise ParseError(f"{kind.full_name} is an object, and {str(document)[:50]!r} is not one")
    fields = {**kind.fields_by_camelcase_name, **kind.fields_by_name}
    rest: dict[str, Any] = {}
    for written, value in document.items():
        if (field := fields.get(written)) is None:
            raise ParseError(f"it has no field {written!r}, but {', '.join(kind.fields_by_name)[:300]}")
        if field.message_type is None and isinstance(value, np.ndarray):
            _set(message, field, value)
        elif field.message_type is None or value is None:  # of a google.protobuf.Value null is a value
            rest[field.name] = _plain(value, field)
        elif field.message_type.GetOptions().map_entry:
            _fill_map(message, field, value, rest)
        elif field.is_repeated:
            for each in _listed(field, value):
                fill(getattr(message, field.name).add(), each)
        else:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), value)
    _parse(rest, message)


def _fill_map(message: Any, field: FieldDescriptor, value: Any, rest: dict[str, Any]) -> None:
    entry = field.message_type
    assert entry is not None
    key, kind = (entry.fields_by_name[name] for name in ("key", _VALUE))
    if not isinstance(value, dict):
        raise ParseError(f"{field.full_name} takes an object, and {str(value)[:50]!r} is not one")
    if kind.message_type is None or key.type != FieldDescriptor.TYPE_STRING:
        rest[field.name] = _plain(value, kind)
        return
    for name, each in value.items():
        fill(getattr(message, field.name)[name], each)


def _fill_known(message: Any, value: Any) -> None:
    """Set a message of protobuf's own by the JSON that protobuf defines for it."""
    kind = message.DESCRIPTOR
    if kind.full_name in WRAPPERS and isinstance(value, np.ndarray):
        _set(message, kind.fields_by_name[_VALUE], value)
    elif kind.full_name == ANY and value:
        _fill_any(message, value)
    else:
        plain = _plain(value, kind.fields_by_name[_VALUE] if kind.full_name in WRAPPERS else None)
        if kind.full_name in _OF_DOUBLES:
            _require_doubles(plain)
        _parse(plain, message)


def _fill_any(message: Any, value: Any) -> None:
    """Pack the message that `@type` names; its fields stand beside that, or its JSON as `value`."""
    named = value.get(_TYPE) if isinstance(value, dict) else None
    if not isinstance(named, str):
        raise ParseError(f'{ANY} is an object with "{_TYPE}", and {str(value)[:50]!r} is not one')
    inner = GetMessageClass(_described(message.DESCRIPTOR.file.pool, named.rpartition("/")[2]))()
    fields = {name: each for name, each in value.items() if name != _TYPE}
    fill(inner, fields.get(_VALUE) if is_known(inner.DESCRIPTOR) else fields)
    message.type_url, message.value = named, inner.SerializeToString(deterministic=True)


def _described(pool: Any, name: str) -> Descriptor:
    """Find a message in the method's description, or among protobuf's own. Raises ParseError."""
    for each in (pool, descriptor_pool.Default()):
        try:
            found: Descriptor = each.FindMessageTypeByName(name)
        except KeyError:
            continue
        if each is pool or is_known(found):
            return found
    raise ParseError(f"the method's description lacks {name[:100]}, which {_TYPE} names")


def _parse(document: Any, message: Any) -> None:
    """Set a message as protobuf's library reads JSON. Raises ParseError."""
    try:
        ParseDict(document, message, descriptor_pool=message.DESCRIPTOR.file.pool)
    except ParseError:
        raise
    except (AttributeError, TypeError, ValueError) as error:
        kind = message.DESCRIPTOR
        raise ParseError(f"{kind.full_name} is {form_of(kind)}, and {str(document)[:50]!r} is not: {error}") from error


def _require_doubles(value: Any) -> None:
    """Raise ParseError for a whole number that the message would round: its numbers are doubles."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            _require_doubles(each)
    elif isinstance(value, int) and (abs(value) >= 1 << 1023 or int(float(value)) != value):
        raise ParseError(f"numbers of google.protobuf.Value are doubles, and {str(value)[:50]} is not one")


def _listed(field: FieldDescriptor, value: Any) -> list[Any]:
    """Return what a list of messages is made of: of protobuf's own, elements of an array are one each."""
    assert field.message_type is not None
    if isinstance(value, np.ndarray) and value.ndim and is_known(field.message_type):
        if field.message_type.full_name not in WRAPPERS:
            plain: list[Any] = value.tolist()
            return plain
        return [value[place : place + 1] for place in range(len(value))]
    if not isinstance(value, list):
        raise ParseError(f"{field.full_name} takes a list, and {str(value)[:50]!r} is not one")
    return value


def _set(message: Any, field: FieldDescriptor, array: Any) -> None:
    """Set a field without fields of its own to an array's values."""
    values = array.ravel().tolist()
    if array.dtype.kind == "O":
        values = [bytes(each or b"") for each in values]  # padding is 0
        if field.type == FieldDescriptor.TYPE_STRING:
            values = [_text(field.full_name, each) for each in values]
    if not field.is_repeated and len(values) != 1:
        raise ParseError(f"{field.full_name} takes one value, and there are {len(values)}")
    try:
        if field.is_repeated:
            getattr(message, field.name).extend(values)
        else:
            setattr(message, field.name, values[0])
    except (TypeError, ValueError) as error:
        raise ParseError(f"{field.full_name}: {error}") from error


def _text(where: str, element: bytes) -> str:
    try:
        return element.decode()
    except UnicodeDecodeError as error:
        raise InputDataError(
            f"{where} is a string, and an element of BYTES is not text: {error.reason}",
            fix="inputs of text; or a field of type bytes",
        ) from error


def _plain(value: Any, field: FieldDescriptor | None = None) -> Any:
    """Return a value as protobuf's JSON has it; bytes are base64 in a field of bytes, else text."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist(), field)
    if isinstance(value, Mapping):
        return {name: _plain(each, field) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each, field) for each in value]
    if isinstance(value, bytes):
        if field is not None and field.type == FieldDescriptor.TYPE_BYTES:
            return base64.b64encode(value).decode()
        return _text(field.full_name if field else "JSON text", value)
    return value
