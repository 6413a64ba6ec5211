"""Answers over gRPC of what is not KServe v2: TensorFlow Serving's, and those of a method that a file describes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loadgen.endpoints.method_answers import MethodReader, Pointer
from loadgen.endpoints.tensorflow_serving import PredictReader, message
from loadgen.kserve.grpc_call import MessageReader, enclose
from servemark.workload import Tensor
from tests.fuzz.damage import damaged
from tests.fuzz.target import Target

BATCH = 2
OUTPUTS = (Tensor("y", "FP32", (3,)), Tensor("words", "BYTES", (-1,)))
_INT32, _FLOAT, _STRING = 3, 1, 7
"""tensorflow.DataType."""


def _scores() -> Any:
    """The class of a message of repeated floats and texts."""
    file = FileDescriptorProto(name="fuzz.proto", package="fuzz", syntax="proto3")
    described = file.message_type.add(name="Scores")
    described.field.add(name="y", number=1, type="TYPE_FLOAT", label="LABEL_REPEATED")
    described.field.add(name="words", number=2, type="TYPE_STRING", label="LABEL_REPEATED")
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("fuzz.Scores"))


SCORES = _scores()


def readers() -> tuple[MessageReader, MessageReader]:
    """New readers, which have seen no answer: of TensorFlow Serving, and of the described message."""
    pointers = {tensor.name: Pointer.of(SCORES.DESCRIPTOR, f"/{tensor.name}", tensor) for tensor in OUTPUTS}
    return PredictReader(OUTPUTS, BATCH), MethodReader(OUTPUTS, BATCH, message=SCORES, pointers=pointers)


def predicted(content: bytes, words: Sequence[bytes], *, dtype: int = _FLOAT, rows: int = BATCH) -> bytes:
    """A PredictResponse of raw floats and of texts."""
    sizes = ((rows, len(content) // 4 // max(rows, 1)), (rows, len(words) // max(rows, 1)))
    shapes = [message("TensorShape", dim=[message("Dim", size=size) for size in shape]) for shape in sizes]
    tensors = {
        "y": message("Tensor", dtype=dtype, tensor_shape=shapes[0], tensor_content=content),
        "words": message("Tensor", dtype=_STRING, tensor_shape=shapes[1], string_val=words),
    }
    outputs = [message("NamedTensor", key=name, value=value) for name, value in tensors.items()]
    return bytes(message("PredictResponse", outputs=outputs).SerializeToString())


RIGHT = (
    predicted(np.arange(6, dtype=np.float32).tobytes(), [b"a", b"b"]),
    SCORES(y=range(1, 7), words=["a", "b"]).SerializeToString(),
)
"""A right answer for each reader."""


@st.composite
def answers(draw: DrawFn) -> bytes:
    """Serialised messages whose sizes and types may be odd."""
    if draw(st.booleans()):
        dtype, rows = draw(st.sampled_from((_FLOAT, _FLOAT, _INT32, 99))), draw(st.sampled_from((BATCH, 0, -1, 2**40)))
        return predicted(
            draw(st.binary(max_size=32)), draw(st.lists(st.binary(max_size=3), max_size=4)), dtype=dtype, rows=rows
        )
    floats = draw(st.lists(st.floats(width=32), max_size=9))
    return bytes(SCORES(y=floats, words=draw(st.lists(st.text(max_size=3), max_size=4))).SerializeToString())


def read_answers(data: bytes) -> None:
    """An answer that is judged right has every output in its shape, also where another came before it."""
    for number, right in enumerate(RIGHT):
        fresh, seasoned = readers()[number], readers()[number]
        assert seasoned.judge(enclose(right)) is None
        verdicts = [reader.judge(enclose(data)) for reader in (fresh, seasoned, seasoned)]
        assert len({*verdicts}) == 1, verdicts
        if verdicts[0] is None:
            arrays = fresh.decode(enclose(data), OUTPUTS)
            assert arrays["y"].shape == (BATCH, 3)
            assert arrays["words"].shape[0] == BATCH


TARGETS = (Target("method_answers", damaged(answers()), read_answers, examples=50),)
