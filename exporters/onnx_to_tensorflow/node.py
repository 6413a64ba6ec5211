"""Declarations: each operator says which attributes, types and outputs it takes; and a node while it is computed.

What is not declared is refused by name.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from exporters.onnx_to_tensorflow.values import Array, Value

Types = frozenset["np.dtype[Any]"]
STANDARD = {"", "ai.onnx"}
"""ONNX's own domain."""
NEWEST_OPSET = 28
"""The operators here are those of ONNX up to this version."""
_OLDER = {"constant_value": "value"}
"""Inputs -> the attributes that they were under another name (Pad)."""


def dtypes(*names: str) -> Types:
    """Return element types by numpy's names."""
    return frozenset(map(np.dtype, names))


FLOATS = dtypes("float32", "float64")
WHOLE = dtypes("int32", "int64")
INTEGERS = WHOLE | dtypes("int8", "int16", "uint8", "uint16", "uint32", "uint64")
BOOL = dtypes("bool")
NUMBERS = FLOATS | INTEGERS
ANY = NUMBERS | BOOL | dtypes("float16")


class Unsupported(Exception):  # noqa: N818 - it says what is not supported
    """The graph has something that this conversion lacks; `operators` are those that it is about."""

    def __init__(self, message: str, operators: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.operators = tuple(operators)


@dataclass(frozen=True)
class Declaration:
    """An operator: its function, and all that the function takes."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]
    """Attributes, and inputs that were attributes in older versions: the function's keyword-only arguments."""
    types: Mapping[str, Types]
    """Element types by ONNX's type variable; of others `ANY`."""
    outputs: int | None
    """Number of outputs that are computed; None where the node says it."""
    since: int
    """The oldest version of the operator that means the same."""
    ignored: tuple[str, ...]
    """Attributes that change nothing that is computed here, such as those of training."""


OPERATORS: dict[str, Declaration] = {}


def operator(
    *names: str,
    types: Types | Mapping[str, Types] = ANY,
    outputs: int | None = 1,
    since: int = 1,
    ignored: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register what a node of one of these types computes: a tensor, a Value, or a tuple of them.

    `types` alone are those of the first input, and of all that have its type variable.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = tuple(
            each.name for each in inspect.signature(function).parameters.values() if each.kind == each.KEYWORD_ONLY
        )
        for name in names:
            first = next((each.type_str for each in defs.get_schema(name).inputs), "")
            of_variables = types if isinstance(types, Mapping) else {first: types}
            OPERATORS[name] = Declaration(function, parameters, of_variables, outputs, since, ignored)
        return function

    return register


def onnx_name(parameter: str) -> str:
    """Return ONNX's name of a function's argument: `max_` is one that Python's own names would hide."""
    return parameter.rstrip("_")


def named(proto: onnx.NodeProto) -> str:
    """Name a node for a message: by its operator and its name, or what it computes."""
    domain = "" if proto.domain in STANDARD else f"{proto.domain}."
    name = f"node {proto.name!r}" if proto.name else f"for {', '.join(map(repr, filter(None, proto.output)))}"
    return f"{domain}{proto.op_type} ({name})"


def schema_of(proto: onnx.NodeProto, opset: int) -> Any:
    """Return ONNX's own description of a node's operator. Raises Unsupported where it has none."""
    try:
        return defs.get_schema(proto.op_type, opset, "")
    except defs.SchemaError as error:
        raise Unsupported(f"{named(proto)}: ONNX's opset {opset} has no such operator", [proto.op_type]) from error


def faults(graph: onnx.GraphProto, opset: int) -> Iterator[Unsupported]:
    """Say what of a graph is not declared: operators, versions, attributes, outputs; of its subgraphs too."""
    if graph.sparse_initializer:
        yield Unsupported(f"sparse weights, such as {graph.sparse_initializer[0].values.name!r}")
    for proto in graph.node:
        yield from faults_of(proto, opset)


def faults_of(proto: onnx.NodeProto, opset: int) -> Iterator[Unsupported]:
    """Say what of a node and its subgraphs is not declared."""
    for each in proto.attribute:
        if each.HasField("g"):
            yield from faults(each.g, opset)
    if proto.domain not in STANDARD:
        yield Unsupported(named(proto), [f"{proto.domain}.{proto.op_type}"])
        return
    try:
        schema = schema_of(proto, opset)
    except Unsupported as error:
        yield error
        return
    declared = OPERATORS.get(proto.op_type)
    if declared is not None:
        for what in _undeclared(proto, opset, schema, declared):
            yield Unsupported(f"{named(proto)} {what}", [proto.op_type])
    elif not (schema.has_function or schema.has_context_dependent_function):
        yield Unsupported(named(proto), [proto.op_type])


def _undeclared(proto: onnx.NodeProto, opset: int, schema: Any, declared: Declaration) -> Iterator[str]:
    if not declared.since <= schema.since_version <= NEWEST_OPSET:
        yield f"of version {schema.since_version}, not {declared.since} to {NEWEST_OPSET}"
    if not schema.min_input <= len(proto.input) <= schema.max_input:
        yield f"with {len(proto.input)} inputs in opset {opset}"
    taken = {onnx_name(parameter).lower() for parameter in declared.parameters} | set(declared.ignored)
    taken |= {_OLDER[name] for name in taken & _OLDER.keys()}
    for each in proto.attribute:
        known, value = schema.attributes.get(each.name), attribute_value(each)
        if known is None:
            yield f"with {each.name}, an attribute that ONNX does not know in opset {opset}"
        elif each.name.lower() not in taken and value != default_of(known):
            yield f"with {each.name}={value}"
    given = {each.name for each in proto.attribute}
    yield from (f"without {name}" for name, each in schema.attributes.items() if each.required and name not in given)
    beyond = [name for name in proto.output[declared.outputs :] if name] if declared.outputs is not None else []
    if beyond:
        yield f"with output {declared.outputs} ({beyond[0]!r})"


def default_of(attribute: Any) -> Any:
    """ONNX's default of an attribute; None where it has none."""
    has_one = attribute.default_value.type != onnx.AttributeProto.UNDEFINED
    return attribute_value(attribute.default_value) if has_one else None


def attribute_value(proto: onnx.AttributeProto) -> Any:
    """Return an attribute's value, text being str."""
    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return [each.decode() for each in value]
    return value


class Scope:
    """The values of a graph by name; those of the graphs around it can be read."""

    def __init__(self, weights: Iterable[onnx.TensorProto], opset: int, parent: "Scope | None" = None) -> None:
        self.values: dict[str, Value | None] = {each.name: Value(numpy_helper.to_array(each)) for each in weights}
        self.opset = opset
        self._parent = parent

    def __getitem__(self, name: str) -> Value | None:
        """Return a value; None where it is an input of a definition that is left out."""
        if not name:
            return None
        if name in self.values or self._parent is None:
            return self.values[name]
        return self._parent[name]

    def found(self, name: str) -> Value:
        """Return a value that is there."""
        value = self[name]
        assert value is not None, name
        return value


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
        return {name: self._parameter(name, by_name) for name in declared.parameters}

    def _parameter(self, name: str, inputs: Mapping[str, Value | None]) -> Any:
        """Return a parameter: an attribute, or an input by its name, which may have been an attribute before.

        What the node leaves out is ONNX's default, None where ONNX has none.
        """
        newest, name = defs.get_schema(self.type), onnx_name(name).lower()
        is_input = any(each.name.lower() == name for each in newest.inputs)
        if is_input and name in inputs:
            return inputs[name]
        known = {each.lower(): value for each, value in self.schema.attributes.items()}
        later = {each.lower(): value for each, value in newest.attributes.items()}
        older = _OLDER.get(name, name)
        named_so = (each for each in self._proto.attribute if each.name.lower() in {name, older})
        given = next(map(attribute_value, named_so), None)
        if given is None:
            found = known.get(older) or known.get(name) or later.get(name)
            given = default_of(found) if found else None
        if not is_input or given is None:
            return given
        array = np.asarray(given)
        return Value(array.astype(np.float32 if array.dtype.kind == "f" else np.int64))

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

    def ints(self, value: Value | None, name: str, default: Sequence[int] = ()) -> list[int]:
        """Whole numbers known now; the default where they are left out. Raises Unsupported."""
        return list(default) if value is None else [int(each) for each in np.ravel(self.known(value, name))]


def opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> Mapping[str, int]:
    """The versions of a model's domains; ONNX's own is ""."""
    return {"" if each.domain == "ai.onnx" else each.domain: each.version for each in imports}
