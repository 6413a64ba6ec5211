"""The protobuf messages of KServe v2's GRPCInferenceService, as far as the load generator reads or writes them.

Triton's model configuration is whole, so that gRPC tells of it what HTTP tells. They are written in the notation of
`servemark.protobuf`, each with its name before a colon: one whose name ends with "Entry" is one pair of a map.
Source: Open Inference Protocol's grpc_predict_v2.proto, Triton's extension grpc_service.proto, and its
model_config.proto as tritonclient 2.73 has it. A field of a later release is skipped by protobuf, so that HTTP alone
shows it.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError, Message

from servemark.protobuf import Messages


def _described(text: str) -> dict[str, str]:
    """Read names and what they stand for; an indented line goes on with the one before it."""
    parts = (line.partition(":") for line in text.strip().replace("\n  ", " ").splitlines())
    return {name: fields.strip() for name, _, fields in parts}


ENUMS = _described("""
DataType: TYPE_INVALID TYPE_BOOL TYPE_UINT8 TYPE_UINT16 TYPE_UINT32 TYPE_UINT64 TYPE_INT8 TYPE_INT16 TYPE_INT32
  TYPE_INT64 TYPE_FP16 TYPE_FP32 TYPE_FP64 TYPE_STRING TYPE_BF16
InputFormat: FORMAT_NONE FORMAT_NHWC FORMAT_NCHW
InstanceKind: KIND_AUTO KIND_GPU KIND_CPU KIND_MODEL
SecondaryDeviceKind: KIND_NVDLA
BatchInputKind: BATCH_ELEMENT_COUNT BATCH_ACCUMULATED_ELEMENT_COUNT BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO
  BATCH_MAX_ELEMENT_COUNT_AS_SHAPE BATCH_ITEM_SHAPE BATCH_ITEM_SHAPE_FLATTEN
BatchOutputKind: BATCH_SCATTER_WITH_INPUT_SHAPE
ModelPriority: PRIORITY_DEFAULT PRIORITY_MAX PRIORITY_MIN
TimeoutAction: REJECT DELAY
ControlKind: CONTROL_SEQUENCE_START CONTROL_SEQUENCE_READY CONTROL_SEQUENCE_END CONTROL_SEQUENCE_CORRID
""")
"""Enumerations by their words."""

MODEL_CONFIG = _described("""
StringEntry: key string 1, value string 2
RateLimiterResource: name string 1, global bool 2, count uint32 3
ModelRateLimiter: resources RateLimiterResource* 1, priority uint32 2
SecondaryDevice: kind SecondaryDeviceKind 1, device_id int64 2
ModelInstanceGroup: name string 1, kind InstanceKind 4, count int32 2, rate_limiter ModelRateLimiter 6, gpus int32* 3,
  secondary_devices SecondaryDevice* 8, profile string* 5, passive bool 7, host_policy string 9
ModelTensorReshape: shape int64* 1
ModelInput: name string 1, data_type DataType 2, format InputFormat 3, dims int64* 4, reshape ModelTensorReshape 5,
  is_shape_tensor bool 6, allow_ragged_batch bool 7, optional bool 8, is_non_linear_format_io bool 9
ModelOutput: name string 1, data_type DataType 2, dims int64* 3, reshape ModelTensorReshape 5, label_filename string 4,
  is_shape_tensor bool 6, is_non_linear_format_io bool 7
BatchInput: kind BatchInputKind 1, target_name string* 2, data_type DataType 3, source_input string* 4
BatchOutput: target_name string* 1, kind BatchOutputKind 2, source_input string* 3
LatestVersions: num_versions uint32 1
AllVersions:
SpecificVersions: versions int64* 1
ModelVersionPolicy: latest LatestVersions 1, all AllVersions 2, specific SpecificVersions 3
OptimizationGraph: level int32 1
GraphShape: dim int64* 1
GraphInputEntry: key string 1, value GraphShape 2
GraphLowerBound: batch_size int32 1, input GraphInputEntry* 2
GraphSpec: batch_size int32 1, input GraphInputEntry* 2, graph_lower_bound GraphLowerBound 3
OptimizationCuda: graphs bool 1, busy_wait_events bool 2, graph_spec GraphSpec* 3, output_copy_stream bool 4
Accelerator: name string 1, parameters StringEntry* 2
ExecutionAccelerators: gpu_execution_accelerator Accelerator* 1, cpu_execution_accelerator Accelerator* 2
PinnedMemoryBuffer: enable bool 1
ModelOptimizationPolicy: graph OptimizationGraph 1, priority ModelPriority 2, cuda OptimizationCuda 3,
  execution_accelerators ExecutionAccelerators 4, input_pinned_memory PinnedMemoryBuffer 5,
  output_pinned_memory PinnedMemoryBuffer 6, gather_kernel_buffer_threshold uint32 7, eager_batching bool 8
ModelQueuePolicy: timeout_action TimeoutAction 1, default_timeout_microseconds uint64 2, allow_timeout_override bool 3,
  max_queue_size uint32 4
QueuePolicyEntry: key uint64 1, value ModelQueuePolicy 2
ModelDynamicBatching: preferred_batch_size int32* 1, max_queue_delay_microseconds uint64 2, preserve_ordering bool 3,
  priority_levels uint64 4, default_priority_level uint64 5, default_queue_policy ModelQueuePolicy 6,
  priority_queue_policy QueuePolicyEntry* 7
SequenceControl: kind ControlKind 1, int32_false_true int32* 2, fp32_false_true float* 3, bool_false_true bool* 5,
  data_type DataType 4
ControlInput: name string 1, control SequenceControl* 2
InitialState: data_type DataType 1, dims int64* 2, zero_data bool? 3, data_file string? 4, name string 5
SequenceState: input_name string 1, output_name string 2, data_type DataType 3, dims int64* 4,
  initial_state InitialState* 5, use_same_buffer_for_input_output bool 6, use_growable_memory bool 7
StrategyDirect: max_queue_delay_microseconds uint64 1, minimum_slot_utilization float 2
StrategyOldest: max_candidate_sequences int32 1, preferred_batch_size int32* 2, max_queue_delay_microseconds uint64 3,
  preserve_ordering bool 4
ModelSequenceBatching: direct StrategyDirect 3, oldest StrategyOldest 4, max_sequence_idle_microseconds uint64 1,
  control_input ControlInput* 2, state SequenceState* 5, iterative_sequence bool 6
EnsembleStep: model_name string 1, model_version int64 2, input_map StringEntry* 3, output_map StringEntry* 4,
  model_namespace string 5
ModelEnsembling: step EnsembleStep* 1, max_inflight_requests uint32 2
ModelParameter: string_value string 1
ModelParameterEntry: key string 1, value ModelParameter 2
WarmupInput: data_type DataType 1, dims int64* 2, zero_data bool? 3, random_data bool? 4, input_data_file string? 5
WarmupInputEntry: key string 1, value WarmupInput 2
ModelWarmup: name string 1, batch_size uint32 2, inputs WarmupInputEntry* 3, count uint32 4
ModelOperations: op_library_filename string* 1
ModelTransactionPolicy: decoupled bool 1
RepositoryAgent: name string 1, parameters StringEntry* 2
ModelRepositoryAgents: agents RepositoryAgent* 1
ModelResponseCache: enable bool 1
MetricIdentifier: family string 1
HistogramOptions: buckets double* 1
MetricControl: metric_identifier MetricIdentifier 1, histogram_options HistogramOptions 2
ModelMetrics: metric_control MetricControl* 1
ModelConfig: name string 1, platform string 2, backend string 17, runtime string 25,
  version_policy ModelVersionPolicy 3, max_batch_size int32 4, input ModelInput* 5, output ModelOutput* 6,
  batch_input BatchInput* 20, batch_output BatchOutput* 21, optimization ModelOptimizationPolicy 12,
  dynamic_batching ModelDynamicBatching 11, sequence_batching ModelSequenceBatching 13,
  ensemble_scheduling ModelEnsembling 15, instance_group ModelInstanceGroup* 7, default_model_filename string 8,
  cc_model_filenames StringEntry* 9, metric_tags StringEntry* 10, parameters ModelParameterEntry* 14,
  model_warmup ModelWarmup* 16, model_operations ModelOperations 18, model_transaction_policy ModelTransactionPolicy 19,
  model_repository_agents ModelRepositoryAgents 23, response_cache ModelResponseCache 24, model_metrics ModelMetrics 26
""")
"""The messages, those within others first."""
SERVICE = "inference.GRPCInferenceService"

_MESSAGES = MODEL_CONFIG | _described("""
ModelReadyRequest: name string 1, version string 2
ModelReadyResponse: ready bool 1
ModelMetadataRequest: name string 1, version string 2
TensorMetadata: name string 1, datatype string 2, shape int64* 3
ModelMetadataResponse: name string 1, versions string* 2, platform string 3, inputs TensorMetadata* 4,
  outputs TensorMetadata* 5
InferParameter: bool_param bool? 1, int64_param int64? 2, string_param string? 3, double_param double? 4
Parameter: key string 1, value InferParameter 2
InferInputTensor: name string 1, datatype string 2, shape int64* 3, parameters Parameter* 4
InferRequestedOutputTensor: name string 1, parameters Parameter* 2
ModelInferRequest: model_name string 1, model_version string 2, id string 3, parameters Parameter* 4,
  inputs InferInputTensor* 5, outputs InferRequestedOutputTensor* 6, raw_input_contents bytes* 7
InferTensorContents: bool_contents bool* 1, int_contents int32* 2, int64_contents int64* 3, uint_contents uint32* 4,
  uint64_contents uint64* 5, fp32_contents float* 6, fp64_contents double* 7, bytes_contents bytes* 8
InferOutputTensor: name string 1, datatype string 2, shape int64* 3, parameters Parameter* 4,
  contents InferTensorContents 5
ModelInferResponse: model_name string 1, model_version string 2, id string 3, parameters Parameter* 4,
  outputs InferOutputTensor* 5, raw_output_contents bytes* 6
ModelStreamInferResponse: error_message string 1, infer_response ModelInferResponse 2
ModelConfigRequest: name string 1, version string 2
ModelConfigResponse: config ModelConfig 1
ModelStatisticsRequest: name string 1, version string 2
StatisticDuration: count uint64 1, ns uint64 2
InferStatistics: success StatisticDuration 1, fail StatisticDuration 2, queue StatisticDuration 3,
  compute_input StatisticDuration 4, compute_infer StatisticDuration 5, compute_output StatisticDuration 6
InferBatchStatistics: batch_size uint64 1, compute_input StatisticDuration 2, compute_infer StatisticDuration 3,
  compute_output StatisticDuration 4
ModelStatistics: name string 1, version string 2, inference_count uint64 4, execution_count uint64 5,
  inference_stats InferStatistics 6, batch_stats InferBatchStatistics* 7
ModelStatisticsResponse: model_stats ModelStatistics* 1
TraceSettingValue: value string* 1
TraceSetting: key string 1, value TraceSettingValue 2
TraceSettingRequest: settings TraceSetting* 1, model_name string 2
TraceSettingResponse: settings TraceSetting* 1
SystemSharedMemoryRegisterRequest: name string 1, key string 2, offset uint64 3, byte_size uint64 4
SystemSharedMemoryUnregisterRequest: name string 1
CudaSharedMemoryRegisterRequest: name string 1, raw_handle bytes 2, device_id int64 3, byte_size uint64 4
CudaSharedMemoryUnregisterRequest: name string 1
""")


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
