"""Services over gRPC that are none of KServe's, by grpcio and official descriptors: TensorFlow Serving, and any method.

`services.pb` holds the descriptors of tensorflow-serving-api 2.21.0, grpcio-reflection and grpcio-health-checking
1.85.1, as their packages have them. So ours are read and written by somebody else's. In a test:

    with GoldenMethods(model="m") as server:
        ...  # send requests to server.port
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tests.golden.grpc import Counting, GrpcProcess, serve

OFFICIAL = Path(__file__).with_name("services.pb")
RANKER = "golden.Ranker"
LOG = "/golden.Log/Read"
_AVAILABLE = 30


@dataclass(frozen=True)
class Behaviour:
    """Behaviour of the server; every `*_every` counts requests from 1, and 0 turns it off."""

    model: str = "m"
    reflection: str = "v1"  # or v1alpha; empty: none
    error_every: int = 0
    wrong_shape_every: int = 0
    missing_every: int = 0
    other_model_every: int = 0
    typed: bool = True  # the values as float_val, as TensorFlow Serving answers, or as tensor_content
    certificate: str = ""  # none, and no socket
    unix: str = ""


def ranker_file() -> FileDescriptorProto:
    """golden.Ranker: a service of one's own, whose messages have a field of each kind."""
    file = FileDescriptorProto(name="golden/ranker.proto", package="golden", syntax="proto3")
    file.dependency.append("golden/item.proto")
    kinds = FieldDescriptorProto
    asked = file.message_type.add(name="ScoreRequest")
    for number, (name, kind, repeated) in enumerate(
        [("model", kinds.TYPE_STRING, False), ("features", kinds.TYPE_FLOAT, True), ("raw", kinds.TYPE_BYTES, False),
         ("shape", kinds.TYPE_INT64, True), ("texts", kinds.TYPE_STRING, True), ("items", kinds.TYPE_MESSAGE, True)], 1,
    ):  # fmt: skip
        added = asked.field.add(name=name, number=number, type=kind, label=3 if repeated else 1)
        if kind == kinds.TYPE_MESSAGE:
            added.type_name = ".golden.Item"
    answered = file.message_type.add(name="ScoreAnswer")
    answered.field.add(name="items", number=1, type=kinds.TYPE_MESSAGE, type_name=".golden.Item", label=3)
    answered.field.add(name="scores", number=2, type=kinds.TYPE_FLOAT, label=3)
    answered.field.add(name="raw", number=3, type=kinds.TYPE_BYTES, label=1)
    answered.field.add(name="texts", number=4, type=kinds.TYPE_STRING, label=3)
    answered.field.add(name="counts", number=5, type=kinds.TYPE_INT64, label=3)
    service = file.service.add(name="Ranker")
    service.method.add(name="Score", input_type=".golden.ScoreRequest", output_type=".golden.ScoreAnswer")
    service.method.add(
        name="Watch", input_type=".golden.ScoreRequest", output_type=".golden.ScoreAnswer", server_streaming=True
    )
    return file


def item_file() -> FileDescriptorProto:
    """The file that the ranker's imports."""
    file = FileDescriptorProto(name="golden/item.proto", package="golden", syntax="proto3")
    item = file.message_type.add(name="Item")
    item.field.add(name="score", number=1, type=FieldDescriptorProto.TYPE_FLOAT, label=1)
    item.field.add(name="features", number=2, type=FieldDescriptorProto.TYPE_FLOAT, label=3)
    return file


def official() -> DescriptorPool:
    """The official descriptors and golden.Ranker's."""
    pool = DescriptorPool()
    for file in [*FileDescriptorSet.FromString(OFFICIAL.read_bytes()).file, item_file(), ranker_file()]:
        pool.Add(file)
    return pool


def message_of(pool: DescriptorPool, name: str) -> type[Any]:
    """Return the class of a message."""
    return GetMessageClass(pool.FindMessageTypeByName(name))


@dataclass
class Service(Counting):
    """The services and their record."""

    pool: DescriptorPool = field(default_factory=official)
    requests: list[int] = field(default_factory=list)  # the bytes of each
    reflected: int = 0

    def number(self, request: Any) -> int:
        """Count a request."""
        with self.lock:
            self.requests.append(request.ByteSize())
            return len(self.requests)

    def predict(self, request: Any, context: Any) -> Any:
        """Give each input back as an output, y for x and so on."""
        import grpc

        number, spec = self.number(request), request.model_spec
        if spec.name != self.behaviour.model or spec.signature_name != "serving_default":
            context.abort(grpc.StatusCode.NOT_FOUND, f"no {spec.name!r} with {spec.signature_name!r}")
        if self.hits(number, "error_every"):
            context.abort(grpc.StatusCode.UNAVAILABLE, f"golden error on request {number}")
        response = message_of(self.pool, "tensorflow.serving.PredictResponse")()
        response.model_spec.name = spec.name + "_other" * self.hits(number, "other_model_every")
        response.model_spec.version.value = spec.version.value or 1
        for name, wanted in zip(sorted(request.inputs), sorted(request.output_filter), strict=True):
            tensor = response.outputs[wanted]
            tensor.CopyFrom(request.inputs[name])
            if self.behaviour.typed and tensor.dtype == 1:
                tensor.float_val.extend(memoryview(tensor.tensor_content).cast("f"))
                tensor.ClearField("tensor_content")
        return response

    def status(self, request: Any, context: Any) -> Any:
        """Say that the model is there in version 1."""
        import grpc

        if request.model_spec.name != self.behaviour.model:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such model")
        response = message_of(self.pool, "tensorflow.serving.GetModelStatusResponse")()
        response.model_version_status.add(version=1, state=_AVAILABLE)
        return response

    def score(self, request: Any, context: Any) -> Any:
        """Give the features back in each field of an answer."""
        import grpc

        number = self.number(request)
        if self.hits(number, "error_every"):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"golden error on request {number}")
        response = message_of(self.pool, "golden.ScoreAnswer")()
        if self.hits(number, "missing_every"):
            return response
        features = request.features or memoryview(request.raw).cast("f").tolist()
        response.scores.extend([*features, *[1.0] * self.hits(number, "wrong_shape_every")])
        response.raw, response.counts[:] = request.raw, [int(each) for each in features]
        response.texts.extend(request.texts)
        for each in request.items:
            response.items.add(score=sum(each.features))
        return response

    def reflect(self, requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        """Describe a symbol's file, or a file by its name, and nothing that it imports, as Java's servers do."""
        answer = message_of(self.pool, "grpc.reflection.v1alpha.ServerReflectionResponse")
        for request in requests:
            response = answer(original_request=request)
            self.reflected += 1
            try:
                file = (
                    self.pool.FindFileContainingSymbol(request.file_containing_symbol)
                    if request.file_containing_symbol
                    else self.pool.FindFileByName(request.file_by_filename)
                )
                response.file_descriptor_response.file_descriptor_proto.append(file.serialized_pb)
            except KeyError:
                response.error_response.error_code = 5
                response.error_response.error_message = "no such symbol"
            yield response


def handlers(service: Service) -> list[Any]:
    """All methods, with official messages."""
    import grpc

    def of(function: Any, kind: str) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            function, message_of(service.pool, kind).FromString, lambda answer: answer.SerializeToString()
        )

    def log(_request: bytes, _context: Any) -> bytes:
        with service.lock:
            return json.dumps({"requests": service.requests, "reflected": service.reflected}).encode()

    reflecting = grpc.stream_stream_rpc_method_handler(
        service.reflect,
        message_of(service.pool, "grpc.reflection.v1alpha.ServerReflectionRequest").FromString,
        lambda answer: answer.SerializeToString(),
    )
    methods = {
        "tensorflow.serving.PredictionService": {"Predict": of(service.predict, "tensorflow.serving.PredictRequest")},
        "tensorflow.serving.ModelService": {
            "GetModelStatus": of(service.status, "tensorflow.serving.GetModelStatusRequest")
        },
        RANKER: {"Score": of(service.score, "golden.ScoreRequest")},
        "golden.Log": {"Read": grpc.unary_unary_rpc_method_handler(log)},
    }
    if service.behaviour.reflection:
        methods[f"grpc.reflection.{service.behaviour.reflection}.ServerReflection"] = {
            "ServerReflectionInfo": reflecting
        }
    return [grpc.method_handlers_generic_handler(name, each) for name, each in methods.items()]


class GoldenMethods(GrpcProcess):
    """The server; takes the fields of Behaviour. Its log: the bytes of each request, and how often it was reflected."""

    log_method = LOG

    def __init__(self, **behaviour: Any) -> None:
        super().__init__("tests.golden.methods", Behaviour(**behaviour), "grpc")


if __name__ == "__main__":
    serve(Behaviour, lambda behaviour: handlers(Service(behaviour)))
