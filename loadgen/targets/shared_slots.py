"""Tensors in memory that a server sees too: requests and answers only name its slots. Another channel carries them.

Inputs are written once, ahead; each request in flight borrows a slot for its outputs. A request is two parts that are
written ahead, one that names its inputs and one that names its slot, so that nothing is serialised in the run.
Source: Triton's "Shared-Memory Extension".
"""

import functools
import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from loadgen.kserve.control import Control
from loadgen.kserve.grpc_call import enclose
from loadgen.kserve.grpc_inference import AnswerReader
from loadgen.kserve.grpc_messages import message, parameters_of
from loadgen.kserve.http_messages import ResponseChecker, judge_description, remember, request_head
from loadgen.kserve.tensors import from_bytes
from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import Answer, Payload
from loadgen.targets.shared_region import Region
from loadgen.transport.http1_head import HEAD_END
from loadgen.transport.server_url import authority, path_of
from servemark.workload import Arrays, Tensor

ALIGNMENT = 256
"""In bytes: TensorRT takes no tensor at another address (NvInferRuntime.h, `setTensorAddress`)."""


class SharedTensor(NamedTuple):
    """A tensor in a region: `shape` with the batch dimension, offset and size in bytes."""

    tensor: Tensor
    shape: tuple[int, ...]
    region: str
    offset: int
    size: int

    @property
    def parameters(self) -> dict[str, str | int]:
        """Return the parameters that name it in a message. An offset of 0 is left out, because gRPC drops a 0.

        A tensor without elements has none: Triton takes no place of 0 bytes, and it has nothing to share.
        """
        if not self.size:
            return {}
        named: dict[str, str | int] = {"shared_memory_region": self.region, "shared_memory_byte_size": self.size}
        return {**named, "shared_memory_offset": self.offset} if self.offset else named


class RequestEncoding(Protocol):
    """Encoding of tensors in shared memory by one protocol."""

    def inputs(self, tensors: Sequence[SharedTensor]) -> bytes:
        """The part of a request that names the model and its inputs."""

    def outputs(self, tensors: Sequence[SharedTensor]) -> bytes:
        """The part that names the slot of its outputs."""

    def request(self, inputs: bytes, outputs: bytes) -> bytes:
        """A request of the two, as it travels."""


class Layout:
    """Lays out aligned tensors in a region that is made when its size is known."""

    def __init__(self, region: str) -> None:
        self.region = region
        self.size = 0

    def add(self, tensor: Tensor, shape: tuple[int, ...], size: int | None = None) -> SharedTensor:
        """Add a tensor at the end; if its elements vary in size, give the bytes that it takes."""
        size = math.prod(shape) * tensor.itemsize if size is None else size
        added = SharedTensor(tensor, shape, self.region, self.size, size)
        self.size = -(-(added.offset + added.size) // ALIGNMENT) * ALIGNMENT
        return added


class Slot(NamedTuple):
    """Memory for the outputs of one request, and the part of the request that names it."""

    outputs: tuple[SharedTensor, ...]
    part: bytes


class Slots:
    """A slot for each request that may be in flight."""

    def __init__(self, region: Region, encoding: RequestEncoding, outputs: Iterable[tuple[SharedTensor, ...]]) -> None:
        self.encoding = encoding
        self._region = region
        self._free = deque(Slot(each, encoding.outputs(each)) for each in outputs)

    def take(self) -> Slot:
        """The one that was used last, which is in the processor's cache."""
        return self._free.pop()

    def give_back(self, slot: Slot, *, answered: bool) -> None:
        """A server may still write for a request that was given up: its slot is used again as late as can be."""
        if answered:
            self._free.append(slot)
        else:
            self._free.appendleft(slot)

    def read(self, slot: Slot) -> Arrays:
        return {
            tensor.tensor.name: from_bytes(
                self._region.read(tensor.offset, tensor.size), tensor.tensor.datatype, tensor.shape
            )
            for tensor in slot.outputs
        }


class SharedAnswer(NamedTuple):
    """An answer to a golden request with its outputs, copied before their slot is used again."""

    answer: Answer
    outputs: Arrays

    @property
    def error(self) -> str | None:
        return self.answer.error

    @property
    def size(self) -> int:
        return self.answer.size

    def message(self) -> str:
        return self.answer.message()

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:
        return {tensor.name: self.outputs[tensor.name] for tensor in outputs}


def sharing(channel: Any, slots: Callable[[], Slots]) -> Any:
    """A class of channels like `channel`, over any protocol, that borrow a slot for each request."""

    class Sharing(channel):  # type: ignore[misc]
        __slots__ = ("_slot", "_slots")

        def __init__(self, *arguments: Any) -> None:
            self._slots = slots()
            self._slot: Slot | None = None
            super().__init__(*arguments)

        def start(self) -> None:
            own: Any = self
            payload: Payload = own.payload
            # There are as many slots as requests may be in flight.
            self._slot = self._slots.take()
            request = self._slots.encoding.request(payload.request, self._slot.part)
            own.payload = Payload(request) if payload.plain else replace(payload, request=request)
            super().start()

        def readable(self) -> Answer | None:
            """Take what has come; of a golden or labelled request the outputs too."""
            answer: Answer | None = super().readable()
            if answer is None:
                return None
            slot, self._slot = self._slot, None
            assert slot is not None
            if (self.payload.golden_rows or self.payload.examples) and not answer.error:
                answer = SharedAnswer(answer, self._slots.read(slot))
            self._slots.give_back(slot, answered=True)
            return answer

        def cancel(self) -> bool:
            return False  # the server may still write to the slot

        def close(self) -> None:
            super().close()
            if self._slot is not None:
                self._slots.give_back(self._slot, answered=False)
                self._slot = None

    return Sharing


class SharedReader(AnswerReader):
    """Judges answers whose outputs lie elsewhere: Triton leaves their contents empty."""

    judge_tensor = staticmethod(judge_description)


class SharedGrpc:
    """A request is two messages one after the other, which protobuf reads as one with the fields of both."""

    def __init__(self, config: LoadConfig) -> None:
        self._model, self._version = config.model, config.server.model_version

    def inputs(self, tensors: Sequence[SharedTensor]) -> bytes:
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

    judge_tensor = staticmethod(judge_description)

    def _judge_json(self, body: bytes) -> str | None:
        known = self._headers.get(body)
        if known is None:
            known = self._judge_header(body)
            remember(self._headers, body, known)
        return known[0]


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
