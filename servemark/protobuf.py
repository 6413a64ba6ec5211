"""Protobuf messages from a description in text.

Described rather than generated: generated code is tied to the protobuf release that made it, and the packages that
bring it would bring their clients too. Fields that are not named are skipped by protobuf.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass


class Messages:
    """The messages of one package: name -> "field type number, ...".

    A "*" after a type: repeated. A map is a repeated message of a key and a value, as protobuf itself lays it out, a
    choice of fields ("oneof") is just its fields, and an enum is an int32.
    """

    def __init__(self, package: str, messages: Mapping[str, str]) -> None:
        # A pool of its own: a process may also load a library that has descriptions of the same names in the default.
        pool = DescriptorPool()
        pool.Add(_file(package, messages))
        self._classes = {name: GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}

    def message(self, kind: str, /, **fields: Any) -> Any:
        """Make a message; its fields are attributes."""
        return self._classes[kind](**fields)

    def parse(self, kind: str, serialised: bytes) -> Any:
        """Read a message. Raises google.protobuf.message.DecodeError."""
        return self._classes[kind].FromString(serialised)


def _file(package: str, messages: Mapping[str, str]) -> FileDescriptorProto:
    file = FileDescriptorProto(name=f"servemark/{package}.proto", package=package, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for text in filter(None, fields.split(", ")):
            field_name, kind, number = text.split()
            field = message.field.add(name=field_name, number=int(number))
            repeated = kind.endswith("*")
            field.label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
            kind = kind.removesuffix("*")
            if kind in messages:
                field.type = FieldDescriptorProto.TYPE_MESSAGE
                field.type_name = f".{package}.{kind}"
            else:
                field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    return file
