"""A node while it is computed: its inputs and parameters, and words for what it cannot be computed with."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import onnx

from exporters.onnx_to_tensorflow.declaration import ANY, Declaration, Unsupported, named, parameter, schema_of
from exporters.onnx_to_tensorflow.values import Array, Value


class Scope(Protocol):
    """The values that can be read, by name."""

    opset: int

    def __getitem__(self, name: str) -> Value | None: ...


class Node:
    """One node with its inputs, those left out being None."""

    def __init__(self, proto: onnx.NodeProto, scope: Scope) -> None:
        self.type = proto.op_type
        self.scope = scope
        self.inputs = [scope[name] for name in proto.input]
        self.outputs = len(proto.output)
        self._proto = proto
        self.schema = schema_of(proto, scope.opset)

    @property
    def version(self) -> int:
        """The opset in which the operator got the meaning that the file asks for."""
        return int(self.schema.since_version)

    def parameters(self, declared: Declaration) -> dict[str, Any]:
        """Return the function's keyword arguments. Raises Unsupported on an element type that is not declared."""
        by_name: dict[str, Value | None] = {}
        formals = self.schema.inputs
        for number, formal in enumerate(formals[: len(formals) if self.inputs else 0]):
            by_name[formal.name.lower()] = self.inputs[number] if number < len(self.inputs) else None
        for number, value in enumerate(self.inputs):
            formal = formals[min(number, len(formals) - 1)]
            if value is not None and value.dtype not in declared.types.get(formal.type_str, ANY):
                raise self.unsupported(f"of {value.dtype} (input {number})")
        return {name: parameter(name, self._proto, self.schema, by_name, _as_input) for name in declared.parameters}

    def unsupported(self, what: str) -> Unsupported:
        """Return an error that names the node."""
        return Unsupported(f"{named(self._proto)} {what}", [self.type])

    def require(self, holds: bool, what: str) -> None:
        """Refuse a node. Raises Unsupported where `holds` is False."""
        if not holds:
            raise self.unsupported(what)

    def only(self, **wanted: tuple[Any, Iterable[Any]]) -> None:
        """Refuse parameters that are not among some values: `mode=(mode, {"avg"})`. Raises Unsupported."""
        for name, (value, allowed) in wanted.items():
            self.require(value in allowed, f"with {name}={value}")

    def value(self, index: int) -> Value:
        """An input that has to be there."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise self.unsupported(f"without input {index}")
        return found

    def tensor(self, index: int) -> Any:
        """An input as ONNX has it."""
        return self.value(index).first

    def has(self, index: int) -> bool:
        """Return True if an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def wants(self, output: int) -> bool:
        """Return True if somebody reads an output."""
        return output < self.outputs and bool(self._proto.output[output])

    def rank(self, value: Value) -> int:
        """Return the number of dimensions. Raises Unsupported where it is not known."""
        if not value.has_rank:
            raise self.unsupported("with a tensor whose number of dimensions is not known")
        return value.rank

    def sizes(self, tensor: Any) -> list[int | None]:
        """Return a tensor's sizes, None for one that varies. Raises Unsupported where their number is not known."""
        if tensor.shape.rank is None:
            raise self.unsupported("with a tensor whose number of dimensions is not known")
        return list(tensor.shape)

    def fixed_sizes(self, tensor: Any, axes: Iterable[int]) -> list[int]:
        """Return sizes along some axes that have to be known now, as those of a kernel. Raises Unsupported."""
        found = [size for axis, size in enumerate(self.sizes(tensor)) if axis in axes and size is not None]
        self.require(len(found) == len(list(axes)), "with a kernel whose size is not known")
        return found

    def known(self, value: Value, name: str) -> Array:
        """Return a value that has to be known now, such as axes. Raises Unsupported."""
        found = value.static()
        if found is None:
            raise self.unsupported(f"with {name} that are computed")
        return found

    def constant(self, index: int) -> Value:
        """An input that has to be known now, which keeps what is made of it. Raises Unsupported."""
        found = self.value(index)
        return found if found.array is not None else Value(self.known(found, f"inputs {index}"))

    def ints(self, value: Value | None, name: str, default: Sequence[int] = ()) -> list[int]:
        """Whole numbers known now; the default where they are left out. Raises Unsupported."""
        return list(default) if value is None else [int(each) for each in np.ravel(self.known(value, name))]


def opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> Mapping[str, int]:
    """The versions of a model's domains; ONNX's own is ""."""
    return {"" if each.domain == "ai.onnx" else each.domain: each.version for each in imports}


def _as_input(attribute: Any) -> Value:
    """Make the input of today of what was an attribute."""
    array = np.asarray(attribute)
    return Value(array.astype(np.float32) if array.dtype.kind == "f" else array.astype(np.int64))
