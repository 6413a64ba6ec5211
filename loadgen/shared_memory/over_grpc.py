"""KServe v2 over gRPC with tensors in shared memory: messages without contents, whose parameters name slots."""

from collections.abc import Sequence
from typing import Any

from loadgen.kserve.grpc_call import enclose
from loadgen.kserve.grpc_inference import AnswerReader
from loadgen.kserve.grpc_messages import message, parameters_of
from loadgen.kserve.http_messages import judge_description
from loadgen.load.load_config import LoadConfig
from loadgen.shared_memory.slots import SharedTensor
from servemark.workload import Tensor


class SharedReader(AnswerReader):
    """Judges answers whose outputs lie elsewhere: Triton leaves their contents empty."""

    def judge_tensor(self, output: Any, tensor: Tensor) -> str | None:
        """The kind of error of one described output, None where it is right."""
        return judge_description(output, tensor, self.batch_size)


class SharedGrpc:
    """A request is two messages one after the other, which protobuf reads as one with the fields of both."""

    def __init__(self, config: LoadConfig) -> None:
        self._model, self._version = config.model, config.server.model_version

    def inputs(self, tensors: Sequence[SharedTensor]) -> bytes:
        """The part of a request that names the model and its inputs."""
        described = [
            message(
                "InferInputTensor",
                name=p.tensor.name,
                datatype=p.tensor.datatype,
                shape=p.shape,
                parameters=parameters_of(p.parameters),
            )
            for p in tensors
        ]
        named = {"model_name": self._model, "model_version": self._version}
        # A tensor without elements is not shared, and Triton wants contents of it, if only empty ones.
        inline = [b"" for p in tensors if not p.size]
        return _serialised(message("ModelInferRequest", **named, inputs=described, raw_input_contents=inline))

    def outputs(self, tensors: Sequence[SharedTensor]) -> bytes:
        wanted = [
            message("InferRequestedOutputTensor", name=p.tensor.name, parameters=parameters_of(p.parameters))
            for p in tensors
        ]
        return _serialised(message("ModelInferRequest", outputs=wanted))

    def request(self, inputs: bytes, outputs: bytes) -> bytes:
        return enclose(inputs + outputs)


def _serialised(request: Any) -> bytes:
    data: bytes = request.SerializeToString()
    return data
