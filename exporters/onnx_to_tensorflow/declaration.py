"""Declarations: each operator says which attributes, types and outputs it takes; the rest is refused by name."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper

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


def parameter(
    name: str, proto: onnx.NodeProto, schema: Any, inputs: Mapping[str, Any], as_input: Callable[[Any], Any]
) -> Any:
    """Return a parameter of a node: an attribute, or an input by its name, which an attribute becomes by `as_input`.

    What the node leaves out is ONNX's default, None where ONNX has none.
    """
    newest = defs.get_schema(proto.op_type)
    name = onnx_name(name).lower()
    is_input = any(each.name.lower() == name for each in newest.inputs)
    if is_input and name in inputs:
        return inputs[name]
    known = {each.lower(): value for each, value in schema.attributes.items()}
    later = {each.lower(): value for each, value in newest.attributes.items()}
    older = _OLDER.get(name, name)
    given = next((attribute_value(each) for each in proto.attribute if each.name.lower() in {name, older}), None)
    if given is None:
        found = known.get(older) or known.get(name) or later.get(name)
        given = default_of(found) if found else None
    return as_input(given) if is_input and given is not None else given


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
