"""TensorFlow Serving over gRPC: PredictionService/Predict, and whether a model is there; OpenVINO Model Server too.

Source: tensorflow/serving, predict.proto, model.proto, get_model_status.proto; tensorflow, tensor.proto, types.proto.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loadgen.endpoints.messages import require_outputs
from loadgen.kserve.grpc_call import PREFIX_BYTES, UNIMPLEMENTED, MessageReader, enclose
from loadgen.kserve.grpc_control import OverGrpc
from loadgen.kserve.http_messages import arrays_of, judge_output, lead_of
from loadgen.kserve.tensors import BYTES, to_bytes
from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import judge_outputs
from servemark.errors import OptionError
from servemark.protobuf import Fields, Messages
from servemark.workload import Arrays

PREDICT = "/tensorflow.serving.PredictionService/Predict"
STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
SIGNATURE = "serving_default"
_AVAILABLE, _MOST_DIGITS = 30, 18
_DATATYPES = {
    "FP32": 1, "FP64": 2, "INT32": 3, "UINT8": 4, "INT16": 5, "INT8": 6, BYTES: 7, "INT64": 9, "BOOL": 10,
    "BF16": 14, "UINT16": 17, "FP16": 19, "UINT32": 22, "UINT64": 23,
}  # fmt: skip
"""tensorflow.DataType."""
_NAMES = {number: name for name, number in _DATATYPES.items()}
_VALUES = {
    "FP32": "float_val", "FP64": "double_val", "INT64": "int64_val", "UINT32": "uint32_val", "UINT64": "uint64_val",
    "BOOL": "bool_val", BYTES: "string_val", "FP16": "half_val", "BF16": "half_val",
}  # fmt: skip
"""Fields of TensorProto by datatype, for values that are not raw; others: int_val."""
_CONTENTS: Fields = {1: {2: {4: None, 5: None, 6: None}}}
"""In `outputs`: tensor_content, float_val, double_val."""
_messages = Messages(
    "tensorflow.serving",
    {
        "Version": "value int64 1",
        "ModelSpec": "name string 1, version Version 2, signature_name string 3",
        "Dim": "size int64 1",
        "TensorShape": "dim Dim* 2, unknown_rank bool 3",
        "Tensor": (
            "dtype int32 1, tensor_shape TensorShape 2, tensor_content bytes 4, float_val float* 5, "
            "double_val double* 6, int_val int32* 7, string_val bytes* 8, int64_val int64* 10, bool_val bool* 11, "
            "half_val int32* 13, uint32_val uint32* 16, uint64_val uint64* 17"
        ),
        "NamedTensor": "key string 1, value Tensor 2",
        "PredictRequest": "model_spec ModelSpec 1, inputs NamedTensor* 2, output_filter string* 3",
        "PredictResponse": "outputs NamedTensor* 1, model_spec ModelSpec 2",
        "GetModelStatusRequest": "model_spec ModelSpec 1",
        "ModelVersionStatus": "version int64 1, state int32 2",
        "GetModelStatusResponse": "model_version_status ModelVersionStatus* 1",
    },
)
message, parse = _messages.message, _messages.parse


class TensorFlowServing:
    """The protocol, with the signature `serving_default`."""

    path = PREDICT
    metadata: Sequence[tuple[str, str]] = ()

    def is_ready(self, control: OverGrpc, model: str, fix: str) -> bool:
        request = message("GetModelStatusRequest", model_spec=_spec(model, control.version))
        answer = control.first_call(STATUS, request, fix)
        if answer.error is not None:
            return answer.error == UNIMPLEMENTED  # the first request tells whether it has Predict at least
        found = parse("GetModelStatusResponse", answer.body[PREFIX_BYTES:]).model_version_status
        return any(each.state == _AVAILABLE for each in found)

    def reader(self, _control: OverGrpc, config: LoadConfig) -> MessageReader:
        require_outputs(config.workload)
        return PredictReader(config.workload.outputs, config.wire_batch)

    def encoder(self, _control: OverGrpc, config: LoadConfig) -> Callable[[Arrays], bytes]:
        spec = _spec(config.model, config.server.model_version, SIGNATURE)
        datatypes = {tensor.name: tensor.datatype for tensor in config.workload.inputs}
        wanted = [tensor.name for tensor in config.workload.outputs]

        def encode(arrays: Arrays) -> bytes:
            inputs = [
                message("NamedTensor", key=name, value=_tensor(array, datatypes[name]))
                for name, array in arrays.items()
            ]
            request = message("PredictRequest", model_spec=spec, inputs=inputs, output_filter=wanted)
            return enclose(request.SerializeToString())

        return encode


@dataclass
class PredictReader(MessageReader):
    """Checks and decodes a model's PredictResponses."""

    contents_at: Fields = field(default_factory=lambda: _CONTENTS, kw_only=True)

    def _judge(self, enclosed: bytes) -> str | None:
        response = parse("PredictResponse", enclosed[PREFIX_BYTES:])
        spec = response.model_spec
        if self.asked and (other := self.asked.judge(spec.name, spec.version.value)):
            return other
        described = {output["name"]: output for output, _ in _described(response)}
        return judge_outputs(described, self.outputs, lead_of(self.batch_size), judge_output)

    def decode(self, enclosed: bytes, outputs: Any) -> Arrays:
        return arrays_of(_described(parse("PredictResponse", enclosed[PREFIX_BYTES:])), outputs)


def _spec(model: str, version: str, signature: str = "") -> Any:
    """Name a model. Raises OptionError for a version that is not a number."""
    if not version:
        return message("ModelSpec", name=model, signature_name=signature)
    if not version.isdecimal() or len(version) > _MOST_DIGITS:
        raise OptionError(
            f"--model-version {version}: TensorFlow Serving numbers its versions",
            fix="a number, like --model-version 3",
        )
    return message("ModelSpec", name=model, signature_name=signature, version=message("Version", value=int(version)))


def _tensor(array: Any, datatype: str) -> Any:
    shape = message("TensorShape", dim=[message("Dim", size=size) for size in array.shape])
    if datatype == BYTES:
        values: dict[str, Any] = {"string_val": [bytes(element or b"") for element in array.ravel()]}  # padding is 0
    else:
        values = {"tensor_content": to_bytes(array, datatype)}
    return message("Tensor", dtype=_DATATYPES[datatype], tensor_shape=shape, **values)


def _described(response: Any) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Each output as the JSON header of an HTTP response of KServe describes it, and its raw contents."""
    for output in response.outputs:
        tensor = output.value
        datatype = _NAMES.get(tensor.dtype, str(tensor.dtype))
        raw = b"" if datatype == BYTES else tensor.tensor_content
        shape = [dim.size for dim in tensor.tensor_shape.dim]
        described = {"name": output.key, "datatype": datatype, "shape": shape}
        values = list(getattr(tensor, _VALUES.get(datatype, "int_val")))
        if datatype in {"FP16", "BF16"} and values:
            raw, values = np.array(values, np.uint16).tobytes(), []  # their bits, as whole numbers
        if raw or not values:
            yield described | {"parameters": {"binary_data_size": len(raw)}}, raw
        else:
            yield described | {"data": values}, b""
