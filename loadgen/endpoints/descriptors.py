"""Messages of a method that a server, or a file, describes: gRPC's server reflection, or a descriptor set of protoc.

Source: grpc/grpc, doc/server-reflection.md, reflection.proto; protobuf, descriptor.proto.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from loadgen.kserve.grpc_call import PREFIX_BYTES, UNIMPLEMENTED
from loadgen.kserve.grpc_control import OverGrpc
from servemark.errors import InputDataError, OptionError, ServemarkError, ServerError
from servemark.protobuf import Messages

MAX_FILES = 500
MAX_SET_BYTES = 16 << 20
_VERSIONS = ("v1", "v1alpha")
_REFLECTION = "/grpc.reflection.{}.ServerReflection/ServerReflectionInfo"
_START = "start the server, or correct --url"
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


def described_by_server(control: OverGrpc, method: str) -> MethodDescriptor:
    """Ask a server's reflection for a method, like package.Service/Method. Raises ServerError, OptionError."""
    service = method.partition("/")[0]
    found = _reflected(control, service, file_containing_symbol=service)
    return _method(found, method, control.url, lambda name: _reflected(control, service, file_by_filename=name))


def described_by_file(file: Path, method: str) -> MethodDescriptor:
    """Find a method in a descriptor set. Raises InputDataError, OptionError."""
    try:
        with file.open("rb") as content:
            found = FileDescriptorSet.FromString(content.read(MAX_SET_BYTES)).file
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
        answer = control.first_call(_REFLECTION.format(version), request, _START)
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
