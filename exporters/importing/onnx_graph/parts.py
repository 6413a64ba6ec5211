"""The parts of an ONNX model of one kind, wherever they stand: graphs, subgraphs, functions, attributes, training."""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

Part = TypeVar("Part", bound="Message")


def parts(model: "Message", kind: type[Part]) -> Iterator[Part]:
    """All messages of a kind, those inside others of the kind included. Fields that ONNX adds are found too."""
    waiting = [model]
    while waiting:
        message = waiting.pop()
        if isinstance(message, kind):
            yield message
        for name, repeated in _ways(message.DESCRIPTOR, kind.DESCRIPTOR):
            if repeated:
                waiting.extend(getattr(message, name))
            elif message.HasField(name):
                waiting.append(getattr(message, name))


@functools.cache
def _ways(start: "Descriptor", end: "Descriptor") -> list[tuple[str, bool]]:
    """The fields of a message below which such a part can stand, and whether each is repeated."""

    def reaches(found: "Descriptor", seen: set[str]) -> bool:
        if found.full_name == end.full_name:
            return True
        if found.full_name in seen:
            return False
        seen.add(found.full_name)
        return any(field.message_type and reaches(field.message_type, seen) for field in found.fields)

    return [
        (field.name, field.is_repeated)
        for field in start.fields
        if field.message_type and reaches(field.message_type, set())
    ]
