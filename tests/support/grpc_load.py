"""Load over gRPC from this process: tests/golden/load.py with the other connection."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from loadgen.kserve.grpc_call import Method
from loadgen.kserve.grpc_connection import GrpcConnection, GrpcStream
from loadgen.kserve.grpc_inference import INFER, STREAM_INFER, AnswerReader, encode_request
from loadgen.kserve.http_messages import Asked
from loadgen.sut.channel import Channel, Payload
from loadgen.transport.limits import max_message_bytes
from tests.golden.load import Load, tensor


@dataclass
class GrpcLoad(Load):
    """A driver over gRPC and what it reported."""

    secure: ClassVar = "grpcs"

    streaming: bool = False
    model: str = "golden"
    distinct: int = 50
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
            reader.judge,
            reader.decode,
            reader.error_message,
            scheme="https" if self.access else "http",
            metadata=self.access.headers if self.access else (),
        )
        kind = self.kind or (GrpcStream if self.streaming else GrpcConnection)
        return lambda: kind(self.address, method)

    def arrays(self) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
        """The inputs of the distinct requests."""
        count = self.distinct * self.batch * self.width
        return np.arange(count, dtype=np.float32).reshape(self.distinct, self.batch, self.width)

    def payloads(self) -> Iterator[Payload]:
        """Requests with so many different contents."""
        requests = [
            encode_request(self.model, {"INPUT0": a}, [tensor(self.width)], {"INPUT0": "FP32"}) for a in self.arrays()
        ]
        return itertools.cycle(map(Payload, requests))
