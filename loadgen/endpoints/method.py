"""Any unary method over gRPC that a document describes: its requests, serialised ahead, and whether it is there."""

from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import EncodeError
from google.protobuf.message_factory import GetMessageClass

from loadgen.endpoints.descriptors import described_by_file, described_by_server
from loadgen.endpoints.endpoint import Endpoint, filled, places
from loadgen.endpoints.messages import check_outputs, check_places
from loadgen.endpoints.method_answers import MethodReader, Pointer
from loadgen.kserve.grpc_call import PREFIX_BYTES, MessageReader, enclose
from loadgen.kserve.grpc_control import OverGrpc
from loadgen.kserve.tensors.values import to_bytes
from loadgen.load.load_config import LoadConfig
from servemark.errors import InputDataError, OptionError
from servemark.protobuf import Messages
from servemark.workload import Arrays, Workload

HEALTH = "/grpc.health.v1.Health/Check"
_NOT_SERVING = 2
_health = Messages("grpc.health.v1", {"Request": "service string 1", "Response": "status int32 1"})


class UnaryMethod:
    """The method that a file of --endpoint-type describes."""

    def __init__(self, endpoint: Endpoint, file: str) -> None:
        request = endpoint.request
        self.path = f"/{request.method}"
        self.metadata: Sequence[tuple[str, str]] = [(name.lower(), value) for name, value in request.headers.items()]
        self._endpoint, self._file = endpoint, Path(file)
        self._described: MethodDescriptor | None = None

    def is_ready(self, control: OverGrpc, _model: str, fix: str) -> bool:
        """Return False only if the server's health service says so: many servers have none."""
        answer = control.first_call(HEALTH, _health.message("Request"), fix)
        known = answer.error is None
        return not known or _health.parse("Response", answer.body[PREFIX_BYTES:]).status != _NOT_SERVING

    def reader(self, control: OverGrpc, config: LoadConfig) -> MessageReader:
        outputs, pointed = config.workload.outputs, self._endpoint.answer.outputs
        check_outputs(str(self._file), config.workload, pointed)
        answer = self._method(control).output_type
        pointers = {tensor.name: Pointer.of(answer, pointed[tensor.name], tensor) for tensor in outputs}
        return MethodReader(outputs, config.wire_batch, message=GetMessageClass(answer), pointers=pointers)

    def encoder(self, control: OverGrpc, config: LoadConfig) -> Callable[[Arrays], bytes]:
        body, workload = self._endpoint.request.body, config.workload
        names = [tensor.name for tensor in workload.inputs]
        check_places(body, workload, {f"{kind}.{name}" for name in names for kind in ("raw", "shape")})
        if not isinstance(body, dict):
            raise OptionError(f"{self._file}: request.body is not an object", fix="the message as JSON")
        kind, wanted = GetMessageClass(self._method(control).input_type), places(body)
        named = {"model": config.model, "version": config.server.model_version}

        def encode(arrays: Arrays) -> bytes:
            message = kind()
            try:
                fill(message, filled(body, {**named, **places_of(arrays, workload, wanted)}))
                return enclose(message.SerializeToString())
            except (ParseError, EncodeError, RecursionError) as error:
                raise OptionError(
                    f"{self._file}: request.body is not a {kind.DESCRIPTOR.full_name}: {str(error)[:200]}",
                    fix="write the message's fields as JSON",
                ) from error

        return encode

    def _method(self, control: OverGrpc) -> MethodDescriptor:
        if self._described is None:
            request = self._endpoint.request
            given = request.descriptor_set
            self._described = (
                described_by_file(self._file.parent / given, request.method)
                if given
                else described_by_server(control, request.method)
            )
        return self._described


def places_of(arrays: Arrays, workload: Workload, wanted: Set[str]) -> dict[str, Any]:
    """Return the values of the places, as arrays: all samples' by input, and by sample; raw, and the shapes."""
    datatypes = {tensor.name: tensor.datatype for tensor in workload.inputs}
    by_sample = [
        {name: array[row] if workload.batched else array for name, array in arrays.items()}
        for row in range(len(next(iter(arrays.values()))) if workload.batched else 1)
    ]
    rows = by_sample if len(arrays) > 1 else next(iter(arrays.values()))
    found: dict[str, Any] = {**arrays, "rows": rows, "object": by_sample[0]}
    found["row"] = by_sample[0] if len(arrays) > 1 else next(iter(by_sample[0].values()))
    for name, array in arrays.items():
        one = by_sample[0][name]
        found[f"row.{name}"], found[f"shape.{name}"] = one, np.array(array.shape)
        if f"raw.{name}" in wanted:
            found[f"raw.{name}"] = np.array([to_bytes(array, datatypes[name])], np.object_)
        if one.ndim and len(one):
            found[f"row.{name}.0"] = one[:1]
    return found


def fill(message: Any, document: Mapping[str, Any]) -> None:
    """Set a message's fields by a document whose values may be arrays; what is left is protobuf's JSON.

    Arrays are set at once, since protobuf's JSON takes 2 µs for each number. Raises ParseError, InputDataError.
    """
    fields = {**message.DESCRIPTOR.fields_by_camelcase_name, **message.DESCRIPTOR.fields_by_name}
    rest: dict[str, Any] = {}
    for written, value in document.items():
        if (described := fields.get(written)) is None:
            raise ParseError(f"it has no field {written!r}, but {', '.join(message.DESCRIPTOR.fields_by_name)[:300]}")
        name, kind = described.name, described.message_type
        if value is None:
            continue
        if kind is None and isinstance(value, np.ndarray):
            _set(message, described, value)
        elif kind is None or kind.full_name.startswith("google.protobuf."):
            rest[name] = _plain(value)
        elif kind.GetOptions().map_entry:
            _fill_map(message, described, value, rest)
        elif described.is_repeated:
            if not isinstance(value, list):
                raise ParseError(f"{described.full_name} takes a list, and {str(value)[:50]!r} is not one")
            for each in value:
                fill(getattr(message, name).add(), _object(described, each))
        else:
            getattr(message, name).SetInParent()
            fill(getattr(message, name), _object(described, value))
    ParseDict(rest, message)


def _fill_map(message: Any, field: FieldDescriptor, value: Any, rest: dict[str, Any]) -> None:
    entry = field.message_type
    assert entry is not None
    key, kind = (entry.fields_by_name[name] for name in ("key", "value"))
    if kind.message_type is None or key.type != FieldDescriptor.TYPE_STRING:
        rest[field.name] = _plain(value)
        return
    for name, each in _object(field, value).items():
        fill(getattr(message, field.name)[name], _object(field, each))


def _object(field: FieldDescriptor, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ParseError(f"{field.full_name} takes an object, and {str(value)[:50]!r} is not one")
    return value


def _set(message: Any, field: FieldDescriptor, array: Any) -> None:
    """Set a field without fields of its own to an array's values."""
    values = array.ravel().tolist()
    if array.dtype.kind == "O":
        values = [bytes(each or b"") for each in values]  # padding is 0
        if field.type == FieldDescriptor.TYPE_STRING:
            values = [_text(field, each) for each in values]
    if not field.is_repeated and len(values) != 1:
        raise ParseError(f"{field.full_name} takes one value, and there are {len(values)}")
    try:
        if field.is_repeated:
            getattr(message, field.name).extend(values)
        else:
            setattr(message, field.name, values[0])
    except (TypeError, ValueError) as error:
        raise ParseError(f"{field.full_name}: {error}") from error


def _text(field: FieldDescriptor, element: bytes) -> str:
    try:
        return element.decode()
    except UnicodeDecodeError as error:
        raise InputDataError(
            f"{field.full_name} is a string, and an element of BYTES is not text: {error.reason}",
            fix="inputs of text; or a field of type bytes",
        ) from error


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.decode(errors="replace") if isinstance(value, bytes) else value
