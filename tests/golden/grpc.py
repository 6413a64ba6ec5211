"""A KServe v2 server over gRPC that is none of ours: grpcio's server and tritonclient's messages, with known behaviour.

It gives INPUT0 back as OUTPUT0, offers neither configuration nor statistics (as a foreign server may), and counts what
it received. A process of its own:

    with GoldenGrpc(delay_s=0.005, error_every=10) as server:
        ...  # send requests to server.port
        assert server.log()["requests"] == sent
"""

import argparse
import json
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from servemark.calibration.golden.server import GoldenProcess
from tests.golden.memory import Memory, over_grpc
from tests.golden.tensors import BadRequestError

SERVICE = "inference.GRPCInferenceService"
ERROR = "golden error: naïve 100 % on request"


@dataclass(frozen=True)
class Behaviour:
    """Behaviour of the server; every `*_every` counts inference requests from 1, and 0 turns it off."""

    model: str = "golden"
    width: int = 64
    delay_s: float = 0.0
    error_every: int = 0
    wrong_shape_every: int = 0
    wrong_datatype_every: int = 0
    missing_every: int = 0
    other_model_every: int = 0  # the right answer in another model's name
    other_version_every: int = 0
    typed_every: int = 0  # the values as fp32_contents, not raw
    end_every: int = 0  # a stream ends instead of answering
    certificate: str = ""  # a PEM file with certificate and key: TLS on the port, and another one without for the log
    authorization: str = ""  # what the metadata must have in each call
    compresses: bool = False  # answers unary calls with gzip; requests may come so anyway
    unix: str = ""  # the path of a socket at which it listens too
    shared_memory: bool = True
    answers: int = -1  # on a stream: so many to each request, then a response that says so (decoupled); -1: the one
    gap_s: float = 0.0  # between them


@dataclass
class Counting:
    """A service over gRPC that counts its requests."""

    behaviour: Any
    lock: threading.Lock = field(default_factory=threading.Lock)

    def hits(self, number: int, every: str) -> bool:
        """Return True if the behaviour falls on this request."""
        count: int = getattr(self.behaviour, every)
        return bool(count) and number % count == 0


@dataclass
class Service(Counting):
    """The model and its record."""

    requests: int = 0
    sizes: int = 0
    checksums: int = 0
    streams: int = 0
    memory: Memory = field(default_factory=Memory)
    changes: list[str] = field(default_factory=list)
    cancelled: int = 0  # calls that their client gave up
    peers: list[str] = field(default_factory=list)  # clients that called, each once
    sequences: list[tuple[int, bool, bool]] = field(default_factory=list)  # id, start, end of each request

    def infer(self, request: Any) -> tuple[int, Any]:
        """Number a request and answer it; None is an error."""
        from tritonclient.grpc import service_pb2

        shared = over_grpc(request.inputs[0].parameters)
        raw = self.memory.read(shared) if shared else request.raw_input_contents[0]
        with self.lock:
            self.requests += 1
            number = self.requests
            self.sizes += len(raw)
            self.checksums += zlib.crc32(raw)
            if "sequence_id" in (given := request.parameters):
                flags = given["sequence_start"].bool_param, given["sequence_end"].bool_param
                self.sequences.append((given["sequence_id"].int64_param, *flags))
        if self.behaviour.delay_s:
            time.sleep(self.behaviour.delay_s)
        if self.hits(number, "error_every"):
            return number, None
        model = request.model_name + "_other" * self.hits(number, "other_model_every")
        version = "2" if self.hits(number, "other_version_every") else "1"
        response = service_pb2.ModelInferResponse(model_name=model, model_version=version, id=request.id)
        if self.hits(number, "missing_every"):
            return number, response
        tensor = request.inputs[0]
        shape = list(tensor.shape) if not self.hits(number, "wrong_shape_every") else [*tensor.shape, 1]
        datatype = "INT32" if self.hits(number, "wrong_datatype_every") else tensor.datatype
        output = response.outputs.add(name="OUTPUT0", datatype=datatype, shape=shape)
        if self.hits(number, "typed_every"):
            output.contents.fp32_contents.extend(memoryview(raw).cast("f"))
        elif place := over_grpc(request.outputs[0].parameters):
            self.memory.write(place, raw)
            response.raw_output_contents.append(b"")
        else:
            response.raw_output_contents.append(raw)
        return number, response


def handlers(service: Service) -> Any:
    """The methods, with tritonclient's messages."""
    import grpc
    from tritonclient.grpc import service_pb2

    def admit(context: Any) -> None:
        wanted, given = service.behaviour.authorization, dict(context.invocation_metadata()).get("authorization", "")
        if wanted and given != wanted:
            # It repeats a secret, as a careless server may.
            context.abort(grpc.StatusCode.UNAUTHENTICATED, f"golden refusal of {given!r}")

    def unary(request: Any, context: Any) -> Any:
        admit(context)
        if service.behaviour.compresses:
            context.set_compression(grpc.Compression.Gzip)
        number, response = service.infer(request)
        with service.lock:
            service.cancelled += not context.is_active()
            service.peers += [context.peer()] if context.peer() not in service.peers else []
        if response is None:
            context.abort(grpc.StatusCode.UNAVAILABLE, f"{ERROR} {number}")
        return response

    def stream(requests: Iterator[Any], context: Any) -> Iterator[Any]:
        admit(context)
        with service.lock:
            service.streams += 1
        for request in requests:
            number, response = service.infer(request)
            if service.hits(number, "end_every"):
                context.abort(grpc.StatusCode.ABORTED, "golden end")
            if response is None:
                yield service_pb2.ModelStreamInferResponse(error_message=f"{ERROR} {number}")
            elif service.behaviour.answers < 0:
                yield service_pb2.ModelStreamInferResponse(infer_response=response)
            else:
                yield from several(request, response)

    def several(request: Any, response: Any) -> Iterator[Any]:
        response.parameters["triton_final_response"].bool_param = False
        for number in range(service.behaviour.answers):
            time.sleep(service.behaviour.gap_s if number else 0)
            yield service_pb2.ModelStreamInferResponse(infer_response=response)
        last = service_pb2.ModelStreamInferResponse()
        last.infer_response.parameters["triton_final_response"].bool_param = True
        if request.parameters["triton_enable_empty_final_response"].bool_param:
            yield last

    def metadata(request: Any, context: Any) -> Any:
        admit(context)
        if request.name != service.behaviour.model:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no {request.name!r} here")
        found = service_pb2.ModelMetadataResponse(name=request.name, platform="golden")
        for tensors, name in ((found.inputs, "INPUT0"), (found.outputs, "OUTPUT0")):
            tensors.add(name=name, datatype="FP32", shape=[-1, service.behaviour.width])
        return found

    def ready(request: Any, context: Any) -> Any:
        admit(context)
        return service_pb2.ModelReadyResponse(ready=request.name == service.behaviour.model)

    def log(_request: bytes, _context: Any) -> bytes:
        names = ("requests", "sizes", "checksums", "streams", "changes", "sequences", "cancelled", "peers")
        with service.lock:
            return json.dumps({name: getattr(service, name) for name in names}).encode()

    def change(request: Any, context: Any) -> Any:
        admit(context)
        kind = "cuda" if "Cuda" in request.DESCRIPTOR.name else "system"
        action = "unregister" if "Unregister" in request.DESCRIPTOR.name else "register"
        place = {found.name: getattr(request, found.name) for found in request.DESCRIPTOR.fields}
        try:
            with service.lock:
                service.memory.change(kind, place.pop("name"), action, place)
                service.changes.append(f"{kind} {action}")
        except BadRequestError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return getattr(service_pb2, request.DESCRIPTOR.name.replace("Request", "Response"))()

    def of(function: Any, name: str) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            function, getattr(service_pb2, f"{name}Request").FromString, lambda answer: answer.SerializeToString()
        )

    methods = {
        "ModelInfer": of(unary, "ModelInfer"),
        "ModelMetadata": of(metadata, "ModelMetadata"),
        "ModelReady": of(ready, "ModelReady"),
        "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(
            stream, service_pb2.ModelInferRequest.FromString, lambda answer: answer.SerializeToString()
        ),
        "GoldenLog": grpc.unary_unary_rpc_method_handler(log),
    }
    if service.behaviour.shared_memory:
        names = [f"{k}SharedMemory{action}" for k in ("System", "Cuda") for action in ("Register", "Unregister")]
        methods |= {name: of(change, name) for name in names}
    return grpc.method_handlers_generic_handler(SERVICE, methods)


def serve(behaviour: type[Any], handlers: Callable[[Any], Any]) -> None:
    """Serve until SIGTERM as --config says, JSON with a behaviour's fields; the port is printed as one JSON line."""
    import grpc

    parser = argparse.ArgumentParser(description=behaviour.__doc__)
    parser.add_argument("--config", default="{}")
    settings = behaviour(**json.loads(parser.parse_args().config))
    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(64), options=unlimited)
    server.add_generic_rpc_handlers(tuple(handlers(settings)))
    plain = port = server.add_insecure_port("127.0.0.1:0")
    if settings.certificate:
        pem = Path(settings.certificate).read_bytes()
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(pem, pem)]))
    if settings.unix:
        server.add_insecure_port(f"unix:{settings.unix}")
    server.start()
    print(json.dumps({"port": port, "plain": plain}), flush=True)  # noqa: T201 - for whoever started it
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    server.stop(None)


class GrpcProcess(GoldenProcess):
    """Such a server in its own process, for the length of a `with` block."""

    log_method: ClassVar[str]

    def log(self) -> dict[str, Any]:
        """Return what the server has counted."""
        import grpc

        with grpc.insecure_channel(f"127.0.0.1:{self.plain_port}") as channel:
            answer: bytes = channel.unary_unary(self.log_method)(b"", timeout=10)
        return dict(json.loads(answer))


class GoldenGrpc(GrpcProcess):
    """The server; takes the fields of Behaviour. Its log: requests, bytes and CRC-32s of their tensors, and more."""

    log_method = f"/{SERVICE}/GoldenLog"

    def __init__(self, **behaviour: Any) -> None:
        super().__init__("tests.golden.grpc", Behaviour(**behaviour), "grpc")


if __name__ == "__main__":
    serve(Behaviour, lambda behaviour: [handlers(Service(behaviour))])
