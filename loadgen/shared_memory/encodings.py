"""KServe v2 with tensors in shared memory: JSON that names slots, or messages whose parameters name them."""

import functools
import json
from collections.abc import Sequence
from typing import Any

from loadgen.kserve.control import Control
from loadgen.kserve.grpc_call import enclose
from loadgen.kserve.grpc_inference import AnswerReader
from loadgen.kserve.grpc_messages import message, parameters_of
from loadgen.kserve.http_messages import ResponseChecker, judge_description, remember, request_head
from loadgen.load.load_config import LoadConfig
from loadgen.shared_memory.slots import SharedTensor
from loadgen.transport.http1_head import HEAD_END, Head
from loadgen.transport.server_url import authority, path_of
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


class SharedChecker(ResponseChecker):
    """Judges answers whose outputs lie elsewhere: the text only describes them, and repeats itself."""

    def judge(self, head: Head, body: bytes) -> str | None:
        """The kind of error of a complete response, None where it is right."""
        if head.status != 200:
            return f"http_{head.status}"
        known = self._headers.get(body)
        if known is None:
            known = self._judge_header(body)
            remember(self._headers, body, known)
        return known[0]

    def judge_tensor(self, output: Any, tensor: Tensor) -> str | None:
        """The kind of error of one described output, None where it is right."""
        return judge_description(output, tensor, self.batch_size)


class SharedHttp:
    """A request is JSON in two pieces; its length stands before them. `control` knows the model's path once asked."""

    def __init__(self, config: LoadConfig, control: Control) -> None:
        self._config, self._control = config, control

    @functools.cached_property
    def _head(self) -> bytes:
        config, url = self._config, self._config.url
        fields = dict(config.access.headers) | {"Content-Type": "application/json", "Content-Length": ""}
        path = path_of(url) + self._control.path(config.model)
        return request_head(authority(url), path, fields).removesuffix(HEAD_END)

    def inputs(self, tensors: Sequence[SharedTensor]) -> bytes:
        """The part of a request that names the model and its inputs."""
        listed: list[dict[str, Any]] = [
            {
                "name": p.tensor.name,
                "shape": p.shape,
                "datatype": p.tensor.datatype,
                **({"parameters": p.parameters} if p.size else {"data": []}),
            }
            for p in tensors
        ]
        return b'{"inputs":' + _json(listed)

    def outputs(self, tensors: Sequence[SharedTensor]) -> bytes:
        return b',"outputs":' + _json([{"name": p.tensor.name, "parameters": p.parameters} for p in tensors]) + b"}"

    def request(self, inputs: bytes, outputs: bytes) -> bytes:
        return b"%s%d%s%s%s" % (self._head, len(inputs) + len(outputs), HEAD_END, inputs, outputs)


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
