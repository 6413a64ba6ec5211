"""Answers of a unary method that a document describes: pointers into its message, judged and decoded."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict, SerializeToJsonError

from loadgen.endpoints.endpoint import EACH, at_pointer
from loadgen.endpoints.message_fields import BY_FIELD, DYNAMIC, WRAPPERS, is_known
from loadgen.kserve.grpc_call import PREFIX_BYTES, MessageReader
from loadgen.kserve.http_messages import lead_of
from loadgen.kserve.tensors import BYTES, from_bytes
from loadgen.sut.channel import Mismatch
from servemark.errors import OptionError
from servemark.protobuf import Fields
from servemark.workload import Arrays, Tensor, numbers

Array = npt.NDArray[np.generic]
_WIDE = {
    FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FIXED32,
    FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED32, FieldDescriptor.TYPE_SFIXED64,
}  # fmt: skip
"""Types whose values have one size, so that as many bytes are as many values."""
_NUMBER = re.compile(r"-?[0-9]+|NaN|-?Infinity")
_TEXTS = {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}


class _Nullable(str):
    """The name of a field of protobuf's own messages: where it is absent it is null, not what it is by default."""

    __slots__ = ()


@dataclass(frozen=True)
class Pointer:
    """A JSON pointer to an output's values, resolved against the type of the message."""

    steps: tuple[str | int, ...]
    """A field's name, an index, or EACH; after a map's name a key."""
    leaf: FieldDescriptor | None
    """None: the steps lead to a message of protobuf's own, and `within` points into its JSON."""
    numbers: tuple[int, ...]
    """Numbers of the fields on the way."""
    raw: bool
    """The values are the bytes of a `bytes` field, row by row."""
    within: str = ""

    @classmethod
    def of(cls, message: Descriptor, pointer: str, tensor: Tensor) -> "Pointer":
        """Resolve a pointer. Raises OptionError where the message has no such field, or not of the datatype."""
        where = f"answer.outputs: {tensor.name} at {pointer}"
        kind: Descriptor | None = message
        steps: list[str | int] = []
        numbers: list[int] = []
        parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
        leaf = None
        while parts and not (kind is not None and _is_in_json(kind, parts[0])):
            name = parts.pop(0)
            leaf = kind.fields_by_name.get(name) if kind is not None else None
            if leaf is None:
                known = ", ".join(kind.fields_by_name)[:300] if kind is not None else "no fields"
                raise OptionError(f"{where}: the message has no field {name!r}", fix=f"it has {known}")
            kind = leaf.message_type
            nullable = kind is not None and is_known(kind) and not leaf.is_repeated
            steps.append(_Nullable(name) if nullable else name)
            numbers.append(leaf.number)
            if kind is not None and kind.GetOptions().map_entry and parts:
                if kind.fields_by_name["key"].type != FieldDescriptor.TYPE_STRING:
                    raise OptionError(f"{where}: the keys of {name!r} are not texts", fix="point to another field")
                steps.append(parts.pop(0))
                leaf = kind.fields_by_name["value"]
                numbers.append(leaf.number)
                kind = leaf.message_type
            elif leaf.is_repeated and parts:
                steps.append(_index(where, parts.pop(0)))
        if leaf is not None and leaf.is_repeated and isinstance(steps[-1], str) and steps[-1] != EACH:
            steps.append(EACH)
        if kind is not None and kind.full_name in WRAPPERS:
            leaf, kind = kind.fields_by_name["value"], None
            steps.append(leaf.name)
            numbers.append(leaf.number)
        if kind is not None and is_known(kind):
            within = "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts)
            return cls(tuple(steps), None, tuple(numbers), raw=False, within=within)
        if leaf is None or kind is not None:
            raise OptionError(f"{where} is a message", fix="point to one of its fields")
        is_text = leaf.type in _TEXTS
        raw = leaf.type == FieldDescriptor.TYPE_BYTES and tensor.datatype != BYTES
        if is_text != (tensor.datatype == BYTES) and not raw:
            raise OptionError(
                f"{where} is not {tensor.datatype}", fix="--output with BYTES for texts, and with a number for numbers"
            )
        return cls(tuple(steps), leaf, tuple(numbers), raw)

    def values(self, message: Any) -> list[Any]:
        """Return the values in a message. Raises LookupError."""
        found = _at(message, self.steps)
        if self.leaf is not None:
            return found
        return [value for each in found for value in _flat(at_pointer(_json_of(each), self.within))]


def _is_in_json(kind: Descriptor, part: str) -> bool:
    """Tell whether a step leads into the JSON of a message without a description, and not to one of its own fields."""
    return kind.full_name in DYNAMIC and not (kind.full_name in BY_FIELD and part in kind.fields_by_name)


def _json_of(message: Any) -> Any:
    """Return the JSON of a message of protobuf's own. Raises LookupError where it has none."""
    pool = message.DESCRIPTOR.file.pool
    try:
        return MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)
    except (SerializeToJsonError, TypeError, ValueError) as error:  # a type of Any that the description lacks
        raise LookupError(str(error)) from error


def _flat(value: Any) -> Iterator[Any]:
    """Yield the values of nested lists, row by row."""
    if isinstance(value, list):
        for each in value:
            yield from _flat(each)
    else:
        yield value


def _index(where: str, part: str) -> str | int:
    if part != EACH and not re.fullmatch(r"0|[1-9][0-9]{0,8}", part):
        raise OptionError(f"{where}: {part!r} is not an index", fix=f"{EACH} for each of a list, or a number")
    return part if part == EACH else int(part)


def _at(value: Any, steps: Sequence[str | int]) -> list[Any]:
    for place, step in enumerate(steps):
        if isinstance(value, Mapping):
            if step not in value:  # a map would make it
                raise LookupError(step)
            value = value[step]
        elif isinstance(step, int):
            value = value[step]
        elif step == EACH:
            rest = steps[place + 1 :]
            return [leaf for each in value for leaf in _at(each, rest)] if rest else list(value)
        else:
            if isinstance(step, _Nullable) and not value.HasField(step):
                raise LookupError(step)
            value = getattr(value, step)
    return [value]


@dataclass
class MethodReader(MessageReader):
    """Checks and decodes every answer of one method: the number of the values that pointers find."""

    message: type[Any] = field(kw_only=True)
    pointers: Mapping[str, Pointer] = field(kw_only=True)

    def __post_init__(self) -> None:
        for tensor in self.outputs:
            if len(tensor.variable_axes) > 1:
                raise OptionError(
                    f"--output {tensor.name}: a message has a list of values, which cannot tell several sizes",
                    fix="--output with at most one -1 beside that of the batch",
                )
        self.contents_at = _tree(self.pointers.values())

    def _judge(self, enclosed: bytes) -> str | None:
        if not self.outputs:
            return None  # the call's status says all that is asked
        message = self.message.FromString(enclosed[PREFIX_BYTES:])
        lead = lead_of(self.batch_size)
        for tensor in self.outputs:
            pointer = self.pointers[tensor.name]
            try:
                values = pointer.values(message)
            except LookupError:
                return Mismatch.of("missing_output", tensor, lead, "no field there")
            count, rest = len(values), 0
            if pointer.raw:
                count, rest = divmod(sum(map(len, values)), tensor.itemsize)
            if rest or self._shape(tensor, count) is None:
                seen = f"{sum(map(len, values)):,} bytes" if pointer.raw else f"{count:,} values"
                return Mismatch.of("wrong_shape", tensor, lead, seen)
            if pointer.leaf is None and not all(_is_of(tensor, each) for each in values):
                return Mismatch.of("wrong_datatype", tensor, lead, "values of another type")
        return None

    def _shape(self, tensor: Tensor, count: int) -> tuple[int, ...] | None:
        """Return the shape of an output with this number of values; None where it has another number."""
        shape = ((self.batch_size,) if self.batch_size else ()) + tensor.shape
        known = math.prod(size for size in shape if size != -1)
        if -1 not in shape:
            return shape if count == known else None
        varying, rest = divmod(count, known) if known else (0, count)
        return None if rest else tuple(varying if size == -1 else size for size in shape)

    def decode(self, enclosed: bytes, outputs: Sequence[Tensor]) -> Arrays:
        message = self.message.FromString(enclosed[PREFIX_BYTES:])
        return {tensor.name: self._array(tensor, self.pointers[tensor.name], message) for tensor in outputs}

    def _array(self, tensor: Tensor, pointer: Pointer, message: Any) -> Array:
        values = pointer.values(message)
        if pointer.raw:
            content = b"".join(values)
            return from_bytes(content, tensor.datatype, self._shape(tensor, len(content) // tensor.itemsize) or ())
        if tensor.datatype == BYTES:
            array: Array = np.empty(len(values), np.object_)
            array[:] = [each.encode() if isinstance(each, str) else each for each in values]
        else:
            with np.errstate(all="ignore"):  # beyond the datatype: infinite, or any number
                array = numbers([*map(_number, values)]).astype(tensor.dtype)
        return array.reshape(self._shape(tensor, len(values)) or ())


def _is_of(tensor: Tensor, value: Any) -> bool:
    """Tell whether a value of JSON is one of a tensor; protobuf's JSON has whole numbers of 64 bits as texts."""
    if tensor.datatype == BYTES:
        return isinstance(value, str)
    return isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)


def _number(value: Any) -> Any:
    """Return a number of protobuf's JSON."""
    if not isinstance(value, str):
        return value
    return int(value) if value.lstrip("-").isdecimal() else float(value)


def _tree(pointers: Any) -> Fields:
    """Return the fields whose contents may differ between good answers of one length."""
    tree: dict[int, Any] = {}
    for pointer in pointers:
        if pointer.leaf is None:
            continue
        if pointer.leaf.type in _WIDE or pointer.raw:
            at = tree
            for number in pointer.numbers[:-1]:
                at = at.setdefault(number, {})
            at[pointer.numbers[-1]] = None
    return tree
