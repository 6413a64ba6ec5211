"""KServe v2 over gRPC with raw tensors: requests serialised ahead, responses checked as they come.

Source: Open Inference Protocol, grpc_predict_v2.proto, ModelInfer; Triton's ModelStreamInfer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import DecodeError

from loadgen.kserve.grpc_call import PREFIX_BYTES, enclose
from loadgen.kserve.grpc_messages import SERVICE, message, parameters_of, parse
from loadgen.kserve.http_messages import NOTHING, Asked, judge_output
from loadgen.kserve.tensors.values import from_bytes, from_json, to_bytes
from loadgen.transport.limits import MAX_REMEMBERED_BYTES
from servemark.workload import Arrays, Tensor

INFER = f"/{SERVICE}/ModelInfer"
STREAM_INFER = f"/{SERVICE}/ModelStreamInfer"

_REMEMBERED = 1024
_RAW_CONTENTS = 6  # ModelInferResponse.raw_output_contents
_INFER_RESPONSE = 2  # ModelStreamInferResponse.infer_response
_LENGTH_DELIMITED = 2
_TYPED_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""Fields of InferTensorContents by datatype, for values that are not raw. FP16 and BF16 are always raw."""


def encode_request(
    model: str,
    inputs: Arrays,
    outputs: Sequence[Tensor],
    datatypes: Mapping[str, str],
    *,
    version: str = "",
    parameters: Mapping[str, object] = NOTHING,
    request_id: str = "",
) -> bytes:
    """One enclosed ModelInferRequest. `inputs` carry the batch dimension."""
    request = message(
        "ModelInferRequest",
        model_name=model,
        model_version=version,
        id=request_id,
        parameters=parameters_of(parameters),
        inputs=[
            message("InferInputTensor", name=name, datatype=datatypes[name], shape=array.shape)
            for name, array in inputs.items()
        ],
        outputs=[message("InferRequestedOutputTensor", name=tensor.name) for tensor in outputs],
        raw_input_contents=[to_bytes(array, datatypes[name]) for name, array in inputs.items()],
    )
    return enclose(request.SerializeToString())


@dataclass
class AnswerReader:
    """Checks and decodes every answer of one model: its name, the names, datatypes, shapes and sizes of the outputs.

    A server repeats itself: two good answers of one length differ only in the contents of their tensors. What lies
    around the contents is compared with a good answer of that length; only where it differs the answer is parsed.
    `streamed` answers are ModelStreamInferResponses, the others ModelInferResponses.
    """

    outputs: Sequence[Tensor]
    batch_size: int
    streamed: bool = False
    asked: Asked | None = None
    """None: answers of any model are taken."""
    _good: dict[int, tuple[bytes, list[tuple[int, bytes]]]] = field(default_factory=dict)
    """Length of a good answer -> what lies before its first tensor, and between and after them with the positions."""

    def judge(self, enclosed: bytes) -> str | None:
        """The kind of error of an answer, None where it is right."""
        known = self._good.get(len(enclosed))
        if known is not None and enclosed.startswith(known[0]):
            # A loop, not all(), which would cost more than the rest where there is only one output.
            for position, part in known[1]:
                if not enclosed.startswith(part, position):
                    break
            else:
                return None
        try:
            response = self._parse(enclosed)
            error = "grpc_stream_error" if response is None else self._judge(response)
        except (DecodeError, ValueError, OverflowError):
            return "malformed_response"
        if error is None and len(self._good) < _REMEMBERED:
            contents = _contents(enclosed, streamed=self.streamed)
            if contents and len(enclosed) - sum(last - first for first, last in contents) <= MAX_REMEMBERED_BYTES:
                self._good[len(enclosed)] = _around(enclosed, contents)
        return error

    def usual_start(self, enclosed: bytes) -> bytes:
        """Return the beginning that makes another answer as long as this right one right; empty if more must fit."""
        start, others = self._good.get(len(enclosed), (b"", []))
        return start if not others and enclosed.startswith(start) else b""

    def decode(self, enclosed: bytes, outputs: Sequence[Tensor]) -> Arrays:
        """The output arrays of an answer that was judged right, each with the batch dimension."""
        datatypes = {tensor.name: tensor.datatype for tensor in outputs}
        return {
            name: from_json(output["data"], datatypes[name], output["shape"])
            if "data" in output
            else from_bytes(raw, datatypes[name], output["shape"])
            for output, raw in _described(self._parse(enclosed))
            if (name := output["name"]) in datatypes
        }

    def error_message(self, enclosed: bytes) -> str:
        """Return the error message of an answer."""
        if self.streamed:
            try:
                return str(parse("ModelStreamInferResponse", enclosed[PREFIX_BYTES:]).error_message)
            except DecodeError:
                pass
        return ""

    def _parse(self, enclosed: bytes) -> Any:
        """The ModelInferResponse; None where a stream says an error. Raises DecodeError."""
        if not self.streamed:
            return parse("ModelInferResponse", enclosed[PREFIX_BYTES:])
        answer = parse("ModelStreamInferResponse", enclosed[PREFIX_BYTES:])
        return None if answer.error_message else answer.infer_response

    def _judge(self, response: Any) -> str | None:
        raw = response.raw_output_contents
        if raw and len(raw) != len(response.outputs):
            return "wrong_size"
        described = {output["name"]: output for output, _ in _described(response)}
        if len(described) < len(response.outputs):
            return "malformed_response"
        if self.asked and (other := self.asked.judge(response.model_name, response.model_version)):
            return other
        errors = (self.judge_tensor(described.get(tensor.name), tensor) for tensor in self.outputs)
        return next((error for error in errors if error), None)

    def judge_tensor(self, output: Any, tensor: Tensor) -> str | None:
        """The kind of error of one described output, None where it is right."""
        return judge_output(output, tensor, self.batch_size)


def _described(response: Any) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Each output as the JSON header of an HTTP response describes it, and its raw contents."""
    raw = response.raw_output_contents
    for index, output in enumerate(response.outputs):
        described = {"name": output.name, "datatype": output.datatype, "shape": list(output.shape)}
        if raw:
            yield described | {"parameters": {"binary_data_size": len(raw[index])}}, raw[index]
        else:
            values = list(getattr(output.contents, _TYPED_CONTENTS.get(output.datatype, ""), ()))
            yield described | ({"data": values} if values else {}), b""


def _contents(enclosed: bytes, *, streamed: bool) -> list[tuple[int, int]]:
    """Return the first and last byte offsets of the tensors' contents; empty if the message has another form."""
    found = []
    wanted, position = (_INFER_RESPONSE if streamed else _RAW_CONTENTS), PREFIX_BYTES
    while position < len(enclosed):
        tag, position = _varint(enclosed, position)
        if tag & 7 != _LENGTH_DELIMITED:
            return []  # no field of these messages, as they are today
        size, position = _varint(enclosed, position)
        if tag >> 3 == wanted == _INFER_RESPONSE and streamed:
            wanted, streamed = _RAW_CONTENTS, False
            continue  # into the message
        if tag >> 3 == wanted:
            found.append((position, position + size))
        position += size
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A protobuf number and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _around(enclosed: bytes, contents: list[tuple[int, int]]) -> tuple[bytes, list[tuple[int, bytes]]]:
    """The bytes that are not contents: those before them, then each other piece with its position."""
    ends = [*(first for first, _ in contents[1:]), len(enclosed)]
    parts = [(last, enclosed[last:end]) for (_, last), end in zip(contents, ends, strict=True)]
    return enclosed[: contents[0][0]], [(position, part) for position, part in parts if part]
