"""Any unary method over gRPC that a document describes: its requests, serialised ahead, and whether it is there."""

from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.json_format import ParseError
from google.protobuf.message import EncodeError
from google.protobuf.message_factory import GetMessageClass

from loadgen.endpoints.descriptors import described_by_file, described_by_server
from loadgen.endpoints.endpoint import Endpoint, filled, places
from loadgen.endpoints.message_fields import fill, form_of
from loadgen.endpoints.messages import check_outputs, check_places
from loadgen.endpoints.method_answers import MethodReader, Pointer
from loadgen.kserve.grpc_call import PREFIX_BYTES, MessageReader, enclose
from loadgen.kserve.grpc_control import OverGrpc
from loadgen.kserve.tensors.values import to_bytes
from loadgen.load.load_config import LoadConfig
from servemark.errors import OptionError
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
