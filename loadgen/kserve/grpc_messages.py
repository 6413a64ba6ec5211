"""The protobuf messages of KServe v2's GRPCInferenceService, as far as the load generator reads or writes them.

Source: Open Inference Protocol's grpc_predict_v2.proto, Triton's extensions grpc_service.proto and model_config.proto.
"""

from typing import Any

from google.protobuf.message import Message

from servemark.protobuf import Messages

SERVICE = "inference.GRPCInferenceService"

_MESSAGES = {
    "ModelReadyRequest": "name string 1, version string 2",
    "ModelReadyResponse": "ready bool 1",
    "ModelMetadataRequest": "name string 1, version string 2",
    "TensorMetadata": "name string 1, datatype string 2, shape int64* 3",
    "ModelMetadataResponse": (
        "name string 1, versions string* 2, platform string 3, inputs TensorMetadata* 4, outputs TensorMetadata* 5"
    ),
    "InferParameter": "bool_param bool 1, int64_param int64 2, string_param string 3",
    "Parameter": "key string 1, value InferParameter 2",
    "InferInputTensor": "name string 1, datatype string 2, shape int64* 3, parameters Parameter* 4",
    "InferRequestedOutputTensor": "name string 1, parameters Parameter* 2",
    "ModelInferRequest": (
        "model_name string 1, model_version string 2, id string 3, parameters Parameter* 4, "
        "inputs InferInputTensor* 5, outputs InferRequestedOutputTensor* 6, raw_input_contents bytes* 7"
    ),
    "InferTensorContents": (
        "bool_contents bool* 1, int_contents int32* 2, int64_contents int64* 3, uint_contents uint32* 4, "
        "uint64_contents uint64* 5, fp32_contents float* 6, fp64_contents double* 7"
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
    "ModelInstanceGroup": "name string 1, count int32 2, gpus int32* 3, kind int32 4",
    "ModelTransactionPolicy": "decoupled bool 1",
    "ModelDynamicBatching": (
        "preferred_batch_size int32* 1, max_queue_delay_microseconds uint64 2, preserve_ordering bool 3"
    ),
    "ModelParameter": "string_value string 1",
    "ModelParameterEntry": "key string 1, value ModelParameter 2",
    "ModelConfig": (
        "name string 1, platform string 2, max_batch_size int32 4, instance_group ModelInstanceGroup* 7, "
        "dynamic_batching ModelDynamicBatching 11, parameters ModelParameterEntry* 14, "
        "backend string 17, model_transaction_policy ModelTransactionPolicy 19"
    ),
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
    "SystemSharedMemoryRegisterRequest": "name string 1, key string 2, offset uint64 3, byte_size uint64 4",
    "SystemSharedMemoryUnregisterRequest": "name string 1",
    "CudaSharedMemoryRegisterRequest": "name string 1, raw_handle bytes 2, device_id int64 3, byte_size uint64 4",
    "CudaSharedMemoryUnregisterRequest": "name string 1",
}


_messages = Messages("inference", _MESSAGES)
message, parse = _messages.message, _messages.parse


def to_dict(found: Message) -> dict[str, Any]:
    """All fields, also those that are zero, as Triton's HTTP endpoints name and type them."""
    values = {field: getattr(found, field.name) for field in found.DESCRIPTOR.fields}
    return {
        field.name: [_plain(each) for each in value] if field.is_repeated else _plain(value)
        for field, value in values.items()
    }


def _plain(value: Any) -> Any:
    return to_dict(value) if isinstance(value, Message) else value
