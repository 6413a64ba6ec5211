"""KServe v2 over gRPC with raw tensors: requests serialised ahead, responses checked as they come.

Source: Open Inference Protocol, grpc_predict_v2.proto, ModelInfer; Triton's ModelStreamInfer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import DecodeError

from loadgen.kserve.grpc_call import PREFIX_BYTES, MessageReader, enclose
from loadgen.kserve.grpc_messages import SERVICE, message, parameters_of, parse
from loadgen.kserve.http_messages import NOTHING, arrays_of, judge_output, lead_of
from loadgen.kserve.tensors import to_bytes
from loadgen.sut.channel import judge_outputs
from servemark.protobuf import Fields
from servemark.workload import Arrays, Tensor

INFER = f"/{SERVICE}/ModelInfer"
STREAM_INFER = f"/{SERVICE}/ModelStreamInfer"

_RAW_CONTENTS = 6  # ModelInferResponse.raw_output_contents
_INFER_RESPONSE = 2  # ModelStreamInferResponse.infer_response
_TYPED_CONTENTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip
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
class AnswerReader(MessageReader):
    """Checks and decodes every answer of one model: its name, the names, datatypes, shapes and sizes of the outputs.

    `streamed` answers are ModelStreamInferResponses, the others ModelInferResponses.
    """

    streamed: bool = field(default=False, kw_only=True)
    judge_tensor = staticmethod(judge_output)

    def __post_init__(self) -> None:
        raw: Fields = {_RAW_CONTENTS: None}
        self.contents_at = {_INFER_RESPONSE: raw} if self.streamed else raw

    def _judge(self, enclosed: bytes) -> str | None:
        response = self._parse(enclosed)
        if response is None:
            return "grpc_stream_error"
        raw = response.raw_output_contents
        if raw and len(raw) != len(response.outputs):
            return "wrong_size"
        described = {output["name"]: output for output, _ in _described(response)}
        if len(described) < len(response.outputs):
            return "malformed_response"
        if self.asked and (other := self.asked.judge(response.model_name, response.model_version)):
            return other
        return judge_outputs(described, self.outputs, lead_of(self.batch_size), self.judge_tensor)

    def decode(self, enclosed: bytes, outputs: Sequence[Tensor]) -> Arrays:
        return arrays_of(_described(self._parse(enclosed)), outputs)

    def error_message(self, enclosed: bytes) -> str:
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
