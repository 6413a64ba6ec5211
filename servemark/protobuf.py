"""Protobuf messages from a description in text.

Described rather than generated: generated code is tied to the protobuf release that made it, and the packages that
bring it would bring their clients too. Fields that are not named are skipped by protobuf.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

NONE: Mapping[str, str] = MappingProxyType({})
Fields = Mapping[int, "Fields | None"]
"""Numbers of fields, each with those within it; None: its content is meant."""
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}


class Messages:
    """The messages of one package: name -> "field type number, ...".

    A "*" after a type: repeated; "?": what is zero is not absent. A map is a repeated message of a key and a value, as
    protobuf itself lays it out, and a choice of fields ("oneof") is just its fields. An enum is an int32, or one of
    `enums` by its words, which are numbered from 0.
    """

    def __init__(self, package: str, messages: Mapping[str, str], enums: Mapping[str, str] = NONE) -> None:
        # A pool of its own: a process may also load a library that has descriptions of the same names in the default.
        pool = DescriptorPool()
        pool.Add(_file(package, messages, enums))
        self._classes = {name: GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}

    def message(self, kind: str, /, **fields: Any) -> Any:
        """Make a message; its fields are attributes."""
        return self._classes[kind](**fields)

    def parse(self, kind: str, serialised: bytes) -> Any:
        """Read a message. Raises google.protobuf.message.DecodeError."""
        return self._classes[kind].FromString(serialised)


def contents(message: bytes, fields: Fields, first: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Return first and last byte offsets of the contents of fields, as they lie in a serialised message that is right.

    Numbers of varying length are not found, since their count cannot be told from their bytes. Raises ValueError for
    groups, which no message of today has.
    """
    found: list[tuple[int, int]] = []
    end = len(message) if end is None else end
    while first < end:
        tag, first = _varint(message, first)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            _, first = _varint(message, first)
            continue
        if kind == _DELIMITED:
            size, first = _varint(message, first)
        elif (size := _SIZES.get(kind, -1)) < 0:
            raise ValueError(f"a field of wire type {kind}")
        within = fields.get(number)
        if within is not None and kind == _DELIMITED:
            found += contents(message, within, first, first + size)
        elif number in fields and within is None:
            found.append((first, first + size))
        first += size
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A protobuf number and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _file(package: str, messages: Mapping[str, str], enums: Mapping[str, str]) -> FileDescriptorProto:
    file = FileDescriptorProto(name=f"servemark/{package}.proto", package=package, syntax="proto3")
    for name, words in enums.items():
        enum = file.enum_type.add(name=name)
        for value, word in enumerate(words.split()):
            # A word of an enumeration is unique in the scope around it.
            enum.value.add(name=f"{name}_{word}", number=value)
    types = dict.fromkeys(messages, FieldDescriptorProto.TYPE_MESSAGE)
    types |= dict.fromkeys(enums, FieldDescriptorProto.TYPE_ENUM)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for text in filter(None, fields.split(", ")):
            field_name, kind, number = text.split()
            message.field.append(_field(field_name, kind, int(number), package, types))
            if kind.endswith("?"):
                message.field[-1].oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field_name}")
    return file


def _field(
    name: str, kind: str, number: int, package: str, types: Mapping[str, "FieldDescriptorProto.Type.ValueType"]
) -> FieldDescriptorProto:
    field = FieldDescriptorProto(name=name, number=number)
    field.label = field.LABEL_REPEATED if kind.endswith("*") else field.LABEL_OPTIONAL
    kind = kind.rstrip("*?")
    if kind in types:
        field.type = types[kind]
        field.type_name = f".{package}.{kind}"
    else:
        field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    return field
