"""The protobuf messages of KServe v2's GRPCInferenceService, as far as the load generator reads or writes them.

Source: Open Inference Protocol's grpc_predict_v2.proto, Triton's extension grpc_service.proto.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError, Message

from loadgen.kserve.model_config_messages import ENUMS, MODEL_CONFIG
from servemark.protobuf import Messages

SERVICE = "inference.GRPCInferenceService"

_MESSAGES = {
    **MODEL_CONFIG,
    "ModelReadyRequest": "name string 1, version string 2",
    "ModelReadyResponse": "ready bool 1",
    "ModelMetadataRequest": "name string 1, version string 2",
    "TensorMetadata": "name string 1, datatype string 2, shape int64* 3",
    "ModelMetadataResponse": (
        "name string 1, versions string* 2, platform string 3, inputs TensorMetadata* 4, outputs TensorMetadata* 5"
    ),
    "InferParameter": "bool_param bool? 1, int64_param int64? 2, string_param string? 3, double_param double? 4",
    "Parameter": "key string 1, value InferParameter 2",
    "InferInputTensor": "name string 1, datatype string 2, shape int64* 3, parameters Parameter* 4",
    "InferRequestedOutputTensor": "name string 1, parameters Parameter* 2",
    "ModelInferRequest": (
        "model_name string 1, model_version string 2, id string 3, parameters Parameter* 4, "
        "inputs InferInputTensor* 5, outputs InferRequestedOutputTensor* 6, raw_input_contents bytes* 7"
    ),
    "InferTensorContents": (
        "bool_contents bool* 1, int_contents int32* 2, int64_contents int64* 3, uint_contents uint32* 4, "
        "uint64_contents uint64* 5, fp32_contents float* 6, fp64_contents double* 7, bytes_contents bytes* 8"
    ),
    "InferOutputTensor": (
        "name string 1, datatype string 2, shape int64* 3, parameters Parameter* 4, contents InferTensorContents 5"
    ),
    "ModelInferResponse": (
        "model_name string 1, model_version string 2, id string 3, parameters Parameter* 4, "
        "outputs InferOutputTensor* 5, raw_output_contents bytes* 6"
    ),
    "ModelStreamInferResponse": "error_message string 1, infer_response ModelInferResponse 2",
    "ModelConfigRequest": "name string 1, version string 2",
    "ModelConfigResponse": "config ModelConfig 1",
    "ModelStatisticsRequest": "name string 1, version string 2",
    "StatisticDuration": "count uint64 1, ns uint64 2",
    "InferStatistics": (
        "success StatisticDuration 1, fail StatisticDuration 2, queue StatisticDuration 3, "
        "compute_input StatisticDuration 4, compute_infer StatisticDuration 5, compute_output StatisticDuration 6"
    ),
    "InferBatchStatistics": (
        "batch_size uint64 1, compute_input StatisticDuration 2, compute_infer StatisticDuration 3, "
        "compute_output StatisticDuration 4"
    ),
    "ModelStatistics": (
        "name string 1, version string 2, inference_count uint64 4, execution_count uint64 5, "
        "inference_stats InferStatistics 6, batch_stats InferBatchStatistics* 7"
    ),
    "ModelStatisticsResponse": "model_stats ModelStatistics* 1",
    "TraceSettingValue": "value string* 1",
    "TraceSetting": "key string 1, value TraceSettingValue 2",
    "TraceSettingRequest": "settings TraceSetting* 1, model_name string 2",
    "TraceSettingResponse": "settings TraceSetting* 1",
    "SystemSharedMemoryRegisterRequest": "name string 1, key string 2, offset uint64 3, byte_size uint64 4",
    "SystemSharedMemoryUnregisterRequest": "name string 1",
    "CudaSharedMemoryRegisterRequest": "name string 1, raw_handle bytes 2, device_id int64 3, byte_size uint64 4",
    "CudaSharedMemoryUnregisterRequest": "name string 1",
}


_PARAMETER_FIELDS = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}
_messages = Messages("inference", _MESSAGES, ENUMS)
message, parse = _messages.message, _messages.parse


def parameters_of(values: Mapping[str, object]) -> list[Any]:
    """A message's `parameters`, each value by its type."""
    return [
        message("Parameter", key=key, value=message("InferParameter", **{_PARAMETER_FIELDS[type(value)]: value}))
        for key, value in values.items()
    ]


def to_dict(found: Message, *, absent: bool = True) -> dict[str, Any]:
    """All fields, also those that are zero, as Triton's HTTP endpoints name and type them.

    `absent`: messages that are not there as if they were empty; a configuration means something by leaving them out.
    Raises google.protobuf.message.DecodeError for a number that JSON has not.
    """
    return {
        field.name: _value(field, getattr(found, field.name), absent)
        for field in found.DESCRIPTOR.fields
        if absent or not field.has_presence or found.HasField(field.name)
    }


def _value(field: Any, value: Any, absent: bool) -> Any:
    if not field.is_repeated:
        return _plain(field, value, absent)
    plain = [_plain(field, each, absent) for each in value]
    if field.message_type is not None and field.message_type.name.endswith("Entry"):
        return {str(pair["key"]): pair.get("value", {}) for pair in plain}
    return plain


def _plain(field: Any, value: Any, absent: bool) -> Any:
    if field.message_type is not None:
        return to_dict(value, absent=absent)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name.removeprefix(f"{field.enum_type.name}_")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DecodeError(f"{field.name} is {value}")
        # The shortest number that is the same in 32 bits, as JSON has it.
        return float(str(np.float32(value))) if field.type == field.TYPE_FLOAT else value
    return value
