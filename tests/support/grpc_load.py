"""Load over gRPC from this process: tests/golden/load.py with the other connection."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from loadgen.kserve.grpc_call import Method
from loadgen.kserve.grpc_connection import GrpcConnection, GrpcStream
from loadgen.kserve.grpc_inference import INFER, STREAM_INFER, AnswerReader, encode_request
from loadgen.kserve.http_messages import Asked
from loadgen.sut.channel import Channel
from loadgen.transport.limits import max_message_bytes
from tests.golden.load import Load, tensor


@dataclass
class GrpcLoad(Load):
    """A driver over gRPC and what it reported."""

    secure: ClassVar = "grpcs"

    streaming: bool = False
    model: str = "golden"
    kind: Any = None  # another class of channels

    def channels(self) -> Callable[[], Channel]:
        """Factory of connections, unary or streaming."""
        asked = Asked(self.model, frozenset({"1"}))
        reader = AnswerReader([tensor(self.width)], self.batch, streamed=self.streaming, asked=asked)
        path = STREAM_INFER if self.streaming else INFER
        method = Method(
            path,
            f"127.0.0.1:{self.port}",
            max_message_bytes([tensor(self.width)], self.batch),
            reader,
            scheme="https" if self.access else "http",
            metadata=self.access.headers if self.access else (),
        )
        kind = self.kind or (GrpcStream if self.streaming else GrpcConnection)
        return lambda: kind(self.address, method)

    def encode(self, array: npt.NDArray[np.float32]) -> bytes:
        return encode_request(self.model, {"INPUT0": array}, [tensor(self.width)], {"INPUT0": "FP32"})
