"""Messages of protobuf's own, as requests and in answers: their JSON, and arrays in it."""

from typing import Any

import numpy as np
import pytest
from google.protobuf import any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseError
from google.protobuf.message_factory import GetMessageClass

from loadgen.endpoints.message_fields import WRAPPERS, fill, is_known
from loadgen.endpoints.method_answers import MethodReader, Pointer
from loadgen.kserve.grpc_call import enclose
from servemark.errors import InputDataError
from servemark.workload import Tensor

MODULES = any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
FIELDS = {
    "text": "StringValue", "count": "Int64Value", "share": "FloatValue", "raw": "BytesValue", "flag": "BoolValue",
    "object": "Struct", "anything": "Value", "list": "ListValue", "time": "Timestamp", "length": "Duration",
    "mask": "FieldMask", "packed": "Any", "nothing": "Empty",
}  # fmt: skip


def _pool() -> DescriptorPool:
    """known.Holder: a field of each of protobuf's own messages, and lists of two of them."""
    pool = DescriptorPool()
    for module in MODULES:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    names = [module.DESCRIPTOR.name for module in MODULES]
    file = FileDescriptorProto(name="known.proto", package="known", syntax="proto3", dependency=names)
    holder = file.message_type.add(name="Holder")
    fields = FIELDS | {"shares": "FloatValue", "values": "Value"}
    for number, (name, kind) in enumerate(fields.items(), 1):
        label: Any = 3 if name in ("shares", "values") else 1
        holder.field.add(name=name, number=number, type=11, type_name=f".google.protobuf.{kind}", label=label)
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="y", number=1, type=2, label=3)
    inner.field.add(name="n", number=2, type=3, label=1)
    pool.Add(file)
    return pool


POOL = _pool()
LARGE = 2**53 + 1
JSON: dict[str, Any] = {
    "StringValue": "abc", "BytesValue": "AQI=", "BoolValue": True, "FloatValue": 1.5, "DoubleValue": 0.1,
    "Int32Value": -3, "UInt32Value": 3, "Int64Value": str(-LARGE), "UInt64Value": str(2**64 - 1),
    "Struct": {"a": 1.0, "b": [True, None, "c", {"d": 2.5}]}, "Value": [1.0, None, "a"], "ListValue": [1.0, [2.0]],
    "Timestamp": "2026-01-02T03:04:05Z", "Duration": "1.500s", "FieldMask": "a,b.c", "Empty": {},
    "Any": {"@type": "type.googleapis.com/known.Inner", "y": [1.0, 2.0]},
}  # fmt: skip


def made(name: str) -> Any:
    return GetMessageClass(POOL.FindMessageTypeByName(name))()


@pytest.mark.parametrize("kind", JSON)
def test_the_json_of_a_message_of_protobuf_s_own_is_that_of_its_library(kind: str) -> None:
    message = made(f"google.protobuf.{kind}")
    assert is_known(message.DESCRIPTOR)
    fill(message, JSON[kind])
    assert MessageToDict(message, descriptor_pool=POOL) == JSON[kind]


def test_there_is_json_of_each_wrapper() -> None:
    assert {name.rpartition(".")[2] for name in WRAPPERS} <= JSON.keys()


@pytest.mark.parametrize("field", FIELDS)
def test_it_may_be_a_field_of_another(field: str) -> None:
    message = made("known.Holder")
    fill(message, {field: JSON[FIELDS[field]]})
    assert MessageToDict(message, descriptor_pool=POOL) == {field: JSON[FIELDS[field]]}
    fill(message, {field: None})
    assert message.HasField("anything") == (field == "anything")  # whose null is a value


def test_arrays_fill_them() -> None:
    message, x = made("known.Holder"), np.array([1, 2.5], "f4")
    ids = np.array([LARGE])
    document = {
        "share": x[:1], "count": ids, "text": np.array(["é".encode()], object), "raw": np.array([b"\xff"], object),
        "object": {"x": x, "words": np.array([b"a"], object), "all": [np.array(3.0)]},
        "list": x.reshape(2, 1), "anything": x, "shares": x,
        "values": x, "packed": {"@type": "x/known.Inner", "y": x, "n": ids},
    }  # fmt: skip
    fill(message, document)
    assert (message.share.value, message.count.value, message.text.value) == (1, LARGE, "é")
    assert message.raw.value == b"\xff"
    found = MessageToDict(message, descriptor_pool=POOL)
    assert found["object"] == {"x": [1, 2.5], "words": ["a"], "all": [3]}
    assert (found["list"], found["anything"], found["shares"], found["values"]) == ([[1], [2.5]], *[[1, 2.5]] * 3)
    assert found["packed"] == {"@type": "x/known.Inner", "y": [1, 2.5], "n": str(LARGE)}


def test_a_type_of_protobuf_s_own_is_packed_without_a_description() -> None:
    message = any_pb2.Any()
    fill(message, {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": "a"})
    assert wrappers_pb2.StringValue.FromString(message.value).value == "a"


@pytest.mark.parametrize(
    ("kind", "document", "words"),
    [
        ("google.protobuf.StringValue", {"value": "abc"}, "google.protobuf.StringValue is the value alone"),
        ("google.protobuf.StringValue", None, "is the value alone"),
        ("google.protobuf.Int64Value", 2**63, "Value out of range"),
        ("google.protobuf.FloatValue", np.array([1.0, 2.0]), "takes one value, and there are 2"),
        ("google.protobuf.Struct", [1], "Struct"),
        ("google.protobuf.Struct", {"a": LARGE}, f"Value are doubles, and {LARGE} is not one"),
        ("google.protobuf.ListValue", {"a": 1}, "ListValue"),
        ("google.protobuf.Timestamp", 5, "Timestamp"),
        ("google.protobuf.Duration", "1.5", "Duration"),
        ("google.protobuf.FieldMask", ["a"], "FieldMask"),
        ("google.protobuf.Empty", {"a": 1}, "no field"),
        ("google.protobuf.Any", {"y": [1]}, 'is an object with "@type"'),
        ("google.protobuf.Any", {"@type": "x/known.Nonesuch"}, "lacks known.Nonesuch"),
        ("known.Inner", "abc", "known.Inner is an object, and 'abc' is not one"),
        ("known.Holder", {"shares": 3}, "known.Holder.shares takes a list"),
    ],
)
def test_what_is_not_its_json_is_refused(kind: str, document: Any, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        fill(made(kind), document)


def test_bytes_that_are_not_text_are_not_changed_into_text() -> None:
    with pytest.raises(InputDataError, match="not text"):
        fill(made("google.protobuf.Struct"), {"a": np.array([b"\xff"], object)})


def reading(kind: str, pointer: str, tensor: Tensor, document: Any) -> tuple[MethodReader, bytes]:
    """A reader of an output at a pointer into a message, and an answer."""
    described, message = POOL.FindMessageTypeByName(kind), made(kind)
    fill(message, document)
    pointers = {"y": Pointer.of(described, pointer, tensor)}
    reader = MethodReader([tensor], 0, message=GetMessageClass(described), pointers=pointers)
    return reader, enclose(message.SerializeToString())


@pytest.mark.parametrize(
    ("pointer", "datatype", "answer", "values"),
    [
        ("/share", "FP32", {"share": 1.5}, [1.5]),
        ("/share/value", "FP32", {"share": 1.5}, [1.5]),
        ("/count", "INT64", {"count": str(LARGE)}, [LARGE]),
        ("/text", "BYTES", {"text": "é"}, ["é".encode()]),
        ("/shares", "FP32", {"shares": [1, 2]}, [1, 2]),
        ("/shares/*", "FP32", {"shares": [1, 2]}, [1, 2]),
        ("/shares/1", "FP32", {"shares": [1, 2]}, [2]),
        ("/object/scores", "FP32", {"object": {"scores": [[1, 2], [3, 4]]}}, [1, 2, 3, 4]),
        ("/object/rows/*/y", "FP32", {"object": {"rows": [{"y": 1}, {"y": 2}]}}, [1, 2]),
        ("/object/fields", "FP32", {"object": {"fields": 1}}, [1]),
        ("/anything/number_value", "FP32", {"anything": 1}, [1]),
        ("/anything", "FP32", {"anything": [1, 2]}, [1, 2]),
        ("/values", "FP32", {"values": [1, 2]}, [1, 2]),
        ("/list", "BYTES", {"list": ["a", "b"]}, [b"a", b"b"]),
        ("/time", "BYTES", {"time": "2026-01-02T03:04:05Z"}, [b"2026-01-02T03:04:05Z"]),
        ("/time/seconds", "INT64", {"time": "1970-01-01T00:00:07Z"}, [7]),
        ("/length", "BYTES", {"length": "1.500s"}, [b"1.500s"]),
        ("/mask", "BYTES", {"mask": "a,b"}, [b"a,b"]),
        ("/packed/y", "FP32", {"packed": JSON["Any"]}, [1, 2]),
        ("/packed/n", "INT64", {"packed": {"@type": "x/known.Inner", "n": LARGE}}, [LARGE]),
        ("/object/a", "FP32", {"object": {"b": 1}}, "missing_output"),
        ("/share", "FP32", {}, "missing_output"),
        ("/object/a", "FP32", {}, "missing_output"),
        ("/object/a", "FP32", {"object": {"a": "x"}}, "wrong_datatype"),
        ("/object/a", "FP32", {"object": {"a": None}}, "wrong_datatype"),
        ("/object/a", "BYTES", {"object": {"a": 1}}, "wrong_datatype"),
    ],
)
def test_answers_are_read_by_their_json(pointer: str, datatype: str, answer: Any, values: Any) -> None:
    tensor = Tensor("y", datatype, (-1,))
    reader, enclosed = reading("known.Holder", pointer, tensor, answer)
    if isinstance(values, str):
        assert reader.judge(enclosed) == values
    else:
        assert reader.judge(enclosed) is None
        assert reader.decode(enclosed, [tensor])["y"].tolist() == values


@pytest.mark.parametrize(
    ("kind", "pointer", "document"),
    [("FloatValue", "", 1.5), ("FloatValue", "/value", 1.5), ("Struct", "/y", {"y": 1.5})],
)
def test_a_whole_answer_is_one_of_them(kind: str, pointer: str, document: Any) -> None:
    tensor = Tensor("y", "FP32", (1,))
    reader, enclosed = reading(f"google.protobuf.{kind}", pointer, tensor, document)
    assert reader.decode(enclosed, [tensor])["y"].tolist() == [1.5]
