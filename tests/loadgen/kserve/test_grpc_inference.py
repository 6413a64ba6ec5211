"""The gRPC messages against tritonclient's own, and the checks of every answer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format, text_format
from google.protobuf.message import DecodeError
from tritonclient.grpc import model_config_pb2, service_pb2

from loadgen.kserve import grpc_messages
from loadgen.kserve.grpc_call import PREFIX_BYTES, enclose
from loadgen.kserve.grpc_inference import AnswerReader, encode_request
from loadgen.kserve.grpc_messages import MODEL_CONFIG
from servemark.workload import Tensor

OUTPUTS = (Tensor("A", "FP32", (3,)), Tensor("B", "INT64", (-1,)))
NESTED = {
    "TensorMetadata": service_pb2.ModelMetadataResponse.TensorMetadata,
    "InferInputTensor": service_pb2.ModelInferRequest.InferInputTensor,
    "InferRequestedOutputTensor": service_pb2.ModelInferRequest.InferRequestedOutputTensor,
    "InferOutputTensor": service_pb2.ModelInferResponse.InferOutputTensor,
    "TraceSetting": service_pb2.TraceSettingRequest.SettingsEntry,
    "TraceSettingValue": service_pb2.TraceSettingRequest.SettingValue,
}


@pytest.mark.parametrize("name", sorted(grpc_messages._MESSAGES.keys() - MODEL_CONFIG.keys() - {"Parameter"}))
def test_messages_are_tritons(name: str) -> None:
    theirs = NESTED.get(name) or getattr(service_pb2, name)
    for field in grpc_messages.message(name).DESCRIPTOR.fields:
        other = theirs.DESCRIPTOR.fields_by_name[field.name]
        assert (field.number, field.type, field.is_repeated) == (other.number, other.type, other.is_repeated)
        if field.message_type is not None and field.message_type.name != "Parameter":
            entry = NESTED.get(field.message_type.name)
            assert other.message_type.name == (entry.DESCRIPTOR.name if entry else field.message_type.name)


def _check_same(ours: Any, theirs: Any) -> None:
    assert set(ours.fields_by_name) == set(theirs.fields_by_name), theirs.full_name
    # A name that ends so is what makes it a map.
    assert ours.name.endswith("Entry") == theirs.GetOptions().map_entry
    for field in ours.fields:
        other = theirs.fields_by_name[field.name]
        kinds = [(f.number, f.type, f.is_repeated, f.has_presence) for f in (field, other)]
        assert kinds[0] == kinds[1], other.full_name
        if field.enum_type is not None:
            prefix = f"{field.enum_type.name}_"
            words = {value.name.removeprefix(prefix): value.number for value in field.enum_type.values}
            assert words == {value.name: value.number for value in other.enum_type.values}
        if field.message_type is not None:
            _check_same(field.message_type, other.message_type)


def test_the_configuration_is_whole() -> None:
    _check_same(grpc_messages.message("ModelConfig").DESCRIPTOR, model_config_pb2.ModelConfig.DESCRIPTOR)


CONFIGURATION = """
name: "m" backend: "onnxruntime" max_batch_size: 8 version_policy { all { } }
input { name: "A" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ -1, 3 ] reshape { shape: [ 3 ] } }
optimization { cuda { graph_spec { input { key: "A" value { dim: [ 4 ] } } graph_lower_bound { } } } }
sequence_batching {
  direct { minimum_slot_utilization: 0.1 }
  control_input { name: "S" control { kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0, 0.3 ] } }
  state { input_name: "I" initial_state { zero_data: false name: "z" } }
}
instance_group { kind: KIND_MODEL count: 2 rate_limiter { resources { name: "R" global: true count: 3 } } }
parameters { key: "threads" value { string_value: "1" } } parameters { key: "none" value { } }
model_warmup { name: "w" inputs { key: "A" value { data_type: TYPE_BF16 random_data: true } } }
model_metrics { metric_control { histogram_options { buckets: [ 0.1, 10 ] } } }
"""


@pytest.mark.parametrize("text", ["", CONFIGURATION, "dynamic_batching { priority_queue_policy { key: 7 value { } } }"])
def test_a_configuration_reads_as_http_shows_it(text: str) -> None:
    theirs = text_format.Parse(text, model_config_pb2.ModelConfig())
    shown = json_format.MessageToDict(
        theirs, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    ours = grpc_messages.parse("ModelConfig", theirs.SerializeToString())
    assert _numbers(grpc_messages.to_dict(ours, absent=False)) == _numbers(shown)


def _numbers(tree: Any) -> Any:
    """With whole numbers as Triton's JSON has them; protobuf's own writes those of 64 bits as text."""
    if isinstance(tree, dict):
        return {key: _numbers(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_numbers(value) for value in tree]
    return int(tree) if isinstance(tree, str) and tree.lstrip("-").isdecimal() else tree


def test_a_number_that_json_has_not_is_refused() -> None:
    found = grpc_messages.message("ModelMetrics")
    found.metric_control.add().histogram_options.buckets.append(float("inf"))
    with pytest.raises(DecodeError, match="buckets is inf"):
        grpc_messages.to_dict(found)


def test_a_map_is_a_repeated_parameter() -> None:
    theirs = service_pb2.ModelInferRequest(model_name="m")
    theirs.parameters["region"].string_param = "r"
    ours = grpc_messages.parse("ModelInferRequest", theirs.SerializeToString())
    assert [(p.key, p.value.string_param) for p in ours.parameters] == [("region", "r")]
    again = service_pb2.ModelInferRequest.FromString(ours.SerializeToString())
    assert again == theirs


def test_all_fields_are_in_a_dictionary_also_those_that_are_zero() -> None:
    found = grpc_messages.message("ModelStatisticsResponse")
    found.model_stats.add(name="m", inference_count=3).batch_stats.add(batch_size=2)
    [model] = grpc_messages.to_dict(found)["model_stats"]
    assert model["inference_stats"]["success"] == {"count": 0, "ns": 0}
    assert model["batch_stats"][0]["compute_infer"] == {"count": 0, "ns": 0}
    assert (model["inference_count"], model["batch_stats"][0]["batch_size"]) == (3, 2)


def test_a_request_is_what_tritonclient_reads() -> None:
    a, b = np.arange(6, dtype="f4").reshape(2, 3), np.arange(4, dtype="i8").reshape(2, 2)
    enclosed = encode_request("m", {"A": a, "B": b.T}, OUTPUTS, {"A": "FP32", "B": "INT64"})
    assert (enclosed[0], int.from_bytes(enclosed[1:PREFIX_BYTES], "big")) == (0, len(enclosed) - PREFIX_BYTES)
    request = service_pb2.ModelInferRequest.FromString(enclosed[PREFIX_BYTES:])
    assert request.model_name == "m"
    assert [(t.name, t.datatype, list(t.shape)) for t in request.inputs] == [
        ("A", "FP32", [2, 3]),
        ("B", "INT64", [2, 2]),
    ]
    assert list(request.raw_input_contents) == [a.tobytes(), b.T.tobytes()]
    assert [t.name for t in request.outputs] == ["A", "B"]


def test_parameters_are_what_tritonclient_reads_zero_too() -> None:
    given = {"off": False, "none": 0, "empty": "", "half": 0.5, "many": 7}
    enclosed = encode_request("m", {}, [], {}, parameters=given)
    said = service_pb2.ModelInferRequest.FromString(enclosed[PREFIX_BYTES:]).parameters
    fields = {name: value.WhichOneof("parameter_choice") for name, value in said.items()}
    assert {name: getattr(said[name], str(field)) for name, field in fields.items()} == given


def response(rows: int = 2, length: int = 4, **changes: Any) -> Any:
    """A right answer; its values are random."""
    rng = np.random.default_rng()
    found = service_pb2.ModelInferResponse(model_name="m", model_version="1", **changes)
    found.outputs.add(name="A", datatype="FP32", shape=[rows, 3])
    found.outputs.add(name="B", datatype="INT64", shape=[rows, length])
    found.raw_output_contents.append(rng.random((rows, 3), dtype=np.float32).tobytes())
    found.raw_output_contents.append(rng.integers(0, 1 << 60, (rows, length)).tobytes())
    return found


def enclosed_of(found: Any, *, streamed: bool) -> bytes:
    return enclose(
        (service_pb2.ModelStreamInferResponse(infer_response=found) if streamed else found).SerializeToString()
    )


class Counting(AnswerReader):
    """Counts how often an answer is parsed."""

    parsed = 0

    def _parse(self, enclosed: bytes) -> Any:
        self.parsed += 1
        return super()._parse(enclosed)


@pytest.mark.parametrize("streamed", [False, True])
def test_answers_alike_are_parsed_once(streamed: bool) -> None:
    reader = Counting(OUTPUTS, 2, streamed=streamed)
    for _ in range(20):
        assert reader.judge(enclosed_of(response(), streamed=streamed)) is None
    assert reader.parsed == 1
    for _ in range(20):
        assert reader.judge(enclosed_of(response(length=7), streamed=streamed)) is None
    assert reader.parsed == 2
    for number in range(10):
        assert reader.judge(enclosed_of(response(id=f"{number:05}"), streamed=streamed)) is None
    assert reader.parsed == 12


def changed(
    name: str = "B", datatype: str = "FP32", shape: Sequence[int] = (2, 3), sizes: Sequence[int] = (24, 64)
) -> Any:
    """An answer with another name of its last output, or datatype and shape of its first; `sizes`: of raw contents."""
    found = response()
    found.outputs[1].name, found.outputs[0].datatype, found.outputs[0].shape[:] = name, datatype, shape
    found.raw_output_contents[:] = [bytes(size) for size in sizes]
    return found


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"sizes": (24, 56)}, "wrong_size"),
    ({"sizes": (32, 56)}, "wrong_size"),  # the whole is as long as before
    ({"sizes": (24,)}, "wrong_size"),
    ({"sizes": ()}, "missing_output"),
    ({"name": "C"}, "missing_output"),
    ({"datatype": "FP16"}, "wrong_datatype"),
    ({"shape": (3, 2)}, "wrong_shape"),
    ({"shape": (1, 3)}, "wrong_shape"),  # of another batch
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("after_a_good_one", [False, True])
@pytest.mark.parametrize(("changes", "kind"), WRONG)
def test_wrong_answers_are_named(changes: dict[str, Any], kind: str, after_a_good_one: bool, streamed: bool) -> None:
    reader = AnswerReader(OUTPUTS, 2, streamed=streamed)
    if after_a_good_one:
        assert reader.judge(enclosed_of(response(), streamed=streamed)) is None
    found = changed(**changes)
    for _ in range(2):
        assert reader.judge(enclosed_of(found, streamed=streamed)) == kind
    assert reader.judge(enclosed_of(response(), streamed=streamed)) is None


@pytest.mark.parametrize("streamed", [False, True])
def test_every_changed_byte_around_the_contents_is_seen(streamed: bool) -> None:
    """Whatever byte changes, the remembered answer judges as a new reader does, which parses it."""
    good = enclosed_of(response(), streamed=streamed)
    known = AnswerReader(OUTPUTS, 2, streamed=streamed)
    assert known.judge(good) is None
    for position in range(PREFIX_BYTES, len(good)):
        for flip in (1, 0x80):
            changed = bytearray(good)
            changed[position] ^= flip
            fresh = AnswerReader(OUTPUTS, 2, streamed=streamed)
            assert known.judge(bytes(changed)) == fresh.judge(bytes(changed)), position


def test_what_is_remembered_is_bounded() -> None:
    reader = AnswerReader(OUTPUTS, 1)
    for length in range(1500):
        assert reader.judge(enclosed_of(response(1, length), streamed=False)) is None
    assert len(reader._good) <= 1024


@pytest.mark.parametrize("streamed", [False, True])
def test_outputs_are_decoded(streamed: bool) -> None:
    found = response()
    arrays = AnswerReader(OUTPUTS, 2, streamed=streamed).decode(enclosed_of(found, streamed=streamed), OUTPUTS)
    assert {name: array.shape for name, array in arrays.items()} == {"A": (2, 3), "B": (2, 4)}
    assert [arrays["A"].tobytes(), arrays["B"].tobytes()] == list(found.raw_output_contents)


def test_a_streams_error_is_its_words() -> None:
    reader = AnswerReader(OUTPUTS, 2, streamed=True)
    enclosed = enclose(service_pb2.ModelStreamInferResponse(error_message="no such model").SerializeToString())
    assert (reader.judge(enclosed), reader.error_message(enclosed)) == ("grpc_stream_error", "no such model")


def test_bytes_that_are_no_message() -> None:
    assert AnswerReader(OUTPUTS, 2).judge(enclose(b"\xff\xff")) == "malformed_response"
