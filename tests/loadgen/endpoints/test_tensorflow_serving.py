"""TensorFlow Serving's messages, read and written beside the official descriptors, without a server."""

from typing import Any

import numpy as np
import pytest

from loadgen.endpoints.tensorflow_serving import STATUS, PredictReader, TensorFlowServing
from loadgen.kserve.grpc_call import PREFIX_BYTES, enclose
from loadgen.kserve.http_messages import Asked
from servemark.errors import OptionError
from servemark.workload import Tensor
from tests.golden.methods import message_of, official
from tests.support.told import Telling, described_config, told

POOL = official()
AVAILABLE, UNLOADING = 30, 40
X, Y = Tensor("x", "FP32", (2,)), Tensor("y", "FP32", (2,))
NUMBERS = {
    "FP32": (1, "float_val"), "FP64": (2, "double_val"), "INT32": (3, "int_val"), "UINT8": (4, "int_val"),
    "INT64": (9, "int64_val"), "BOOL": (10, "bool_val"), "UINT32": (22, "uint32_val"), "UINT64": (23, "uint64_val"),
}  # fmt: skip
"""Datatype -> tensorflow.DataType, and the field of its values."""


def official_message(name: str) -> Any:
    return message_of(POOL, f"tensorflow.serving.{name}")()


def response(datatype: int, shape: list[int], *, model: str = "m", name: str = "y", **values: Any) -> bytes:
    """A PredictResponse of one output, by the official messages."""
    made = official_message("PredictResponse")
    made.model_spec.name = model
    made.model_spec.version.value = 3
    tensor = made.outputs[name]
    tensor.dtype = datatype
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    for field, value in values.items():
        if isinstance(value, bytes):
            setattr(tensor, field, value)
        else:
            getattr(tensor, field).extend(value)
    return enclose(made.SerializeToString())


@pytest.mark.parametrize(("states", "ready"), [([], False), ([UNLOADING], False), ([UNLOADING, AVAILABLE], True)])
def test_a_model_is_ready_if_a_version_is_available(states: list[int], ready: bool) -> None:
    status = official_message("GetModelStatusResponse")
    for version, state in enumerate(states, 1):
        status.model_version_status.add(version=version, state=state)
    server = Telling(version="3", answers={STATUS: told(status.SerializeToString())})
    assert TensorFlowServing().is_ready(server, "m", "fix") is ready
    asked = official_message("GetModelStatusRequest").FromString(server.asked[0][1])
    assert (asked.model_spec.name, asked.model_spec.version.value) == ("m", 3)


def test_a_server_that_has_no_status_of_models_may_have_predictions() -> None:
    assert TensorFlowServing().is_ready(Telling(), "m", "fix")
    assert not TensorFlowServing().is_ready(Telling(answers={STATUS: told("grpc_not_found")}), "m", "fix")


@pytest.mark.parametrize("version", ["canary", "1.5", "-1", "9" * 19])
def test_a_version_that_is_not_a_number_is_refused(version: str) -> None:
    with pytest.raises(OptionError, match=rf"--model-version {version}: TensorFlow Serving numbers its versions"):
        TensorFlowServing().is_ready(Telling(version=version), "m", "fix")


def test_a_request_is_what_the_official_messages_read() -> None:
    config = described_config("tensorflow-serving", X, Tensor("t", "BYTES", (1,)), outputs=[Y], version="7")
    encode = TensorFlowServing().encoder(Telling(), config)
    enclosed = encode({"x": np.array([[1, 2], [3, 4]], "f4"), "t": np.array([[b"a"], [0]], object)})
    request = official_message("PredictRequest").FromString(enclosed[PREFIX_BYTES:])
    spec = request.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("m", 7, "serving_default")
    assert [*request.output_filter] == ["y"]
    x, text = request.inputs["x"], request.inputs["t"]
    assert (x.dtype, text.dtype) == (NUMBERS["FP32"][0], 7)
    assert [dim.size for dim in x.tensor_shape.dim] == [2, 2]
    assert np.frombuffer(x.tensor_content, "<f4").tolist() == [1, 2, 3, 4]
    assert [*text.string_val] == [b"a", b""]  # padding is no element of its own


@pytest.mark.parametrize("datatype", NUMBERS)
def test_values_of_each_datatype_are_read_raw_and_typed(datatype: str) -> None:
    number, values = NUMBERS[datatype]
    output = Tensor("y", datatype, (2,))
    reader, array = PredictReader([output], 1), np.array([[1, 0]], output.dtype)
    typed: dict[str, Any] = {values: [1.0, 0.0] if "float" in values or "double" in values else [1, 0]}
    for answer in (response(number, [1, 2], tensor_content=array.tobytes()), response(number, [1, 2], **typed)):
        assert reader.judge(answer) is None
        decoded = reader.decode(answer, [output])["y"]
        assert decoded.dtype == output.dtype
        assert decoded.tolist() == array.tolist()


def test_halves_travel_as_their_bits_and_texts_as_they_are() -> None:
    half, text = Tensor("y", "FP16", (2,)), Tensor("y", "BYTES", (2,))
    bits = np.array([1.5, -2], "f2").view("u2").tolist()
    answer = response(19, [1, 2], half_val=bits)
    assert PredictReader([half], 1).judge(answer) is None
    assert PredictReader([half], 1).decode(answer, [half])["y"].tolist() == [[1.5, -2]]
    answer = response(7, [1, 2], string_val=[b"\xff", b""])
    assert PredictReader([text], 1).judge(answer) is None
    assert PredictReader([text], 1).decode(answer, [text])["y"].tolist() == [[b"\xff", b""]]


@pytest.mark.parametrize(("answer", "kind"), [
    (response(1, [1, 2], model="other", float_val=[1, 2]), "wrong_model"),
    (response(1, [1, 2], name="z", float_val=[1, 2]), "missing_output"),
    (response(1, [1, 3], float_val=[1, 2, 3]), "wrong_shape"),
    (response(1, [1, -2], float_val=[1, 2]), "wrong_shape"),
    (response(1, [1, 2], float_val=[1]), "wrong_size"),
    (response(1, [1, 2]), "wrong_size"),
    (response(3, [1, 2], int_val=[1, 2]), "wrong_datatype"),
    (response(99, [1, 2]), "wrong_datatype"),
    (enclose(b"\xff\xff"), "malformed_response"),
    (enclose(b""), "missing_output"),
])  # fmt: skip
def test_an_answer_that_is_not_right_is_named(answer: bytes, kind: str) -> None:
    reader = PredictReader([Y], 1, Asked("m"))
    assert reader.judge(response(1, [1, 2], float_val=[1, 2])) is None
    assert reader.judge(answer) == reader.judge(answer) == kind


def test_another_version_answers_only_where_none_was_asked_for() -> None:
    answer, output = response(1, [1, 1], float_val=[1]), Tensor("y", "FP32", (1,))
    assert PredictReader([output], 1, Asked("m", frozenset({"3"}))).judge(answer) is None
    assert PredictReader([output], 1, Asked("m", frozenset({"4"}))).judge(answer) == "wrong_version"


def test_a_model_without_declared_outputs_is_refused() -> None:
    with pytest.raises(OptionError, match=r"(?s)needs its inputs and its outputs.*--output NAME"):
        TensorFlowServing().reader(Telling(), described_config("tensorflow-serving", X, outputs=[]))
