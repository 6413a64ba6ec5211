"""Any unary method over gRPC that a document describes: its messages, its requests, and whether it is there.

A server's reflection describes the messages, or a descriptor set of protoc.
Source: grpc/grpc, doc/server-reflection.md, reflection.proto; protobuf, descriptor.proto.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseError
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from loadgen.endpoints.endpoint import Endpoint, filled, places
from loadgen.endpoints.message_fields import fill, form_of
from loadgen.endpoints.messages import by_sample, check_outputs, check_places
from loadgen.endpoints.method_answers import MethodReader, Pointer
from loadgen.kserve.control import START
from loadgen.kserve.grpc_call import PREFIX_BYTES, UNIMPLEMENTED, MessageReader, enclose
from loadgen.kserve.grpc_control import OverGrpc
from loadgen.kserve.tensors import to_bytes
from loadgen.load.load_config import LoadConfig
from servemark.errors import InputDataError, OptionError, ServemarkError, ServerError
from servemark.files import content
from servemark.protobuf import Messages
from servemark.workload import Arrays, Workload

MAX_FILES = 500
MAX_SET_BYTES = 16 << 20
_VERSIONS = ("v1", "v1alpha")
_REFLECTION = "/grpc.reflection.{}.ServerReflection/ServerReflectionInfo"
_messages = Messages(
    "grpc.reflection",
    {
        "Request": "file_by_filename string? 3, file_containing_symbol string? 4",
        "Files": "file_descriptor_proto bytes* 1",
        "Error": "error_code int32 1, error_message string 2",
        "Response": "file_descriptor_response Files 4, error_response Error 7",
    },
)
Ask = Callable[[str], Iterable[FileDescriptorProto]]
"""Gives the file of a name and, if it likes, others. Raises ServemarkError where there is none."""
HEALTH = "/grpc.health.v1.Health/Check"
_NOT_SERVING = 2
_health = Messages("grpc.health.v1", {"Request": "service string 1", "Response": "status int32 1"})


def described_by_server(control: OverGrpc, method: str) -> MethodDescriptor:
    """Ask a server's reflection for a method, like package.Service/Method. Raises ServerError, OptionError."""
    service = method.partition("/")[0]
    found = _reflected(control, service, file_containing_symbol=service)
    return _method(found, method, control.url, lambda name: _reflected(control, service, file_by_filename=name))


def described_by_file(file: Path, method: str) -> MethodDescriptor:
    """Find a method in a descriptor set. Raises InputDataError, OptionError."""
    try:
        found = FileDescriptorSet.FromString(content(file, MAX_SET_BYTES)).file
    except (OSError, DecodeError) as error:
        raise _unreadable(str(file), error) from error

    def lacks(name: str) -> Iterable[FileDescriptorProto]:
        raise InputDataError(f"{file} lacks {name[:200]!r}, which it imports", fix="protoc --include_imports")

    return _method(found, method, str(file), lacks)


def _method(found: Iterable[FileDescriptorProto], method: str, where: str, ask: Ask) -> MethodDescriptor:
    """Find a method in files and those that they import, for which `ask` is asked. Raises ServemarkError."""
    files = {file.name: file for file in found}
    pool, service, name = DescriptorPool(), *method.split("/")
    added: set[str] = set()

    def add(file: str) -> None:
        """Add a file, first those that it imports."""
        if file in added:
            return
        added.add(file)
        if file not in files:
            files.update((each.name, each) for each in ask(file))
        if file not in files or len(added) > MAX_FILES:
            raise ServerError(f"{where} describes more than {MAX_FILES} files, or lacks {file[:200]!r}")
        for imported in files[file].dependency:
            add(imported)
        pool.Add(files[file])

    try:
        for file in list(files):
            add(file)
        methods = pool.FindServiceByName(service).methods_by_name
    except ServemarkError:
        raise
    except KeyError as error:
        raise OptionError(f"{where} does not describe {service}", fix="correct request.method") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise _unreadable(where, error) from error
    if name not in methods:
        raise OptionError(f"{service} has no method {name}", fix=f"one of: {', '.join(methods)[:500]}")
    described: MethodDescriptor = methods[name]
    if described.client_streaming or described.server_streaming:
        raise OptionError(f"{method} is a stream", fix="a method that takes one message and answers with one")
    return described


def _reflected(control: OverGrpc, service: str, **asked: str) -> list[FileDescriptorProto]:
    """Ask a server's reflection for files. Raises ServerError, OptionError."""
    request = _messages.message("Request", **asked)
    for version in _VERSIONS:
        answer = control.first_call(_REFLECTION.format(version), request, START)
        if answer.error != UNIMPLEMENTED:
            break
    else:
        raise OptionError(
            f"{control.url} has no reflection, which would describe {service}",
            fix="request.descriptor_set: a file of `protoc --include_imports --descriptor_set_out=FILE`",
        )
    if answer.error is not None:
        raise ServerError(f"{control.url}: reflection: {answer.error} {answer.message()[:200]}".rstrip())
    try:
        found: Any = _messages.parse("Response", answer.body[PREFIX_BYTES:])
        if found.HasField("error_response"):
            words = found.error_response.error_message[:200]
            raise OptionError(f"{control.url} does not describe {service}: {words}", fix="correct request.method")
        return [FileDescriptorProto.FromString(each) for each in found.file_descriptor_response.file_descriptor_proto]
    except DecodeError as error:
        raise _unreadable(control.url, error) from error


def _unreadable(where: str, error: Exception) -> InputDataError:
    return InputDataError(
        f"{where} does not describe messages: {str(error)[:200]}",
        fix="protoc --include_imports --descriptor_set_out=FILE, and request.descriptor_set",
    )


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
                    fix=f"write it as {form_of(kind.DESCRIPTOR)}",
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
    samples = by_sample(arrays, workload)
    rows = samples if len(arrays) > 1 else next(iter(arrays.values()))
    found: dict[str, Any] = {**arrays, "rows": rows, "object": samples[0]}
    found["row"] = samples[0] if len(arrays) > 1 else next(iter(samples[0].values()))
    for name, array in arrays.items():
        one = samples[0][name]
        found[f"row.{name}"], found[f"shape.{name}"] = one, np.array(array.shape)
        if f"raw.{name}" in wanted:
            found[f"raw.{name}"] = np.array([to_bytes(array, datatypes[name])], np.object_)
        if one.ndim and len(one):
            found[f"row.{name}.0"] = one[:1]
    return found
