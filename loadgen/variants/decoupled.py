"""Models that answer a request any number of times (Triton's decoupled ones), over a gRPC stream.

Source: Triton's ModelStreamInfer. The request parameter `triton_enable_empty_final_response` has each request end with
a response whose parameter `triton_final_response` says so.
"""

from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from loadgen.kserve.grpc_call import PREFIX_BYTES, GrpcAnswer, enclose
from loadgen.kserve.grpc_connection import GrpcStream
from loadgen.kserve.grpc_messages import parse
from loadgen.sut.channel import Outcome
from loadgen.transport.http2_channel import END_STREAM
from loadgen.transport.limits import MalformedResponse
from loadgen.variants.sequences import with_parameters
from servemark.stats.histogram import Histogram

FINAL = "triton_final_response"
_ASKS_FOR_FINAL = with_parameters({"triton_enable_empty_final_response": True})


def asking_for_final(request: bytes) -> bytes:
    """An enclosed ModelInferRequest that asks for a response after the last answer. Made ahead."""
    return enclose(_ASKS_FOR_FINAL + request[PREFIX_BYTES:])


class Answers(GrpcAnswer):
    """All answers to one request, already judged; as a GrpcAnswer it is the last of them."""

    came: tuple[int, ...] = ()
    """When each answer was complete, in ns."""


class DecoupledStream(GrpcStream):
    """A stream whose requests are answered by messages until one says that it is the last."""

    __slots__ = ("_came", "_last", "_wrong")

    def _forget(self) -> None:
        super()._forget()
        self._begin_request()

    def _begin_request(self) -> None:
        self._came: list[int] = []
        self._last = b""
        self._wrong: str | None = None

    def start(self) -> None:
        self._begin_request()
        super().start()

    def _on_data(self, piece: bytes, flags: int) -> None:
        if piece:
            self._keep(piece)
        while (size := self._next_size()) and self._have >= size:
            whole = b"".join(self._pieces)
            self._have -= size
            self._pieces = [whole[size:]] if self._have else []
            self._take_message(whole[:size])
        if flags & END_STREAM:
            self._on_end({})

    def _next_size(self) -> int:
        """Bytes of the message that has begun; 0 where its length has not come yet. Raises MalformedResponse."""
        if self._have < PREFIX_BYTES:
            return 0
        if len(self._pieces[0]) < PREFIX_BYTES:
            self._pieces = [b"".join(self._pieces)]
        if self._answer is not None:
            raise MalformedResponse("an answer after the last one")
        return PREFIX_BYTES + int.from_bytes(self._pieces[0][1:PREFIX_BYTES], "big")

    def _take_message(self, enclosed: bytes) -> None:
        """Take one message: an answer, the word that it was the last, or both."""
        if enclosed[0]:
            raise MalformedResponse("a compressed message, which was not asked for")
        try:
            found = parse("ModelStreamInferResponse", enclosed[PREFIX_BYTES:])
        except DecodeError:
            self._wrong, final = self._wrong or "malformed_response", True
            self._last = enclosed
        else:
            final = _is_final(found)
            if found.error_message or found.infer_response.outputs or not final:
                self._came.append(self.came)
                self._wrong = self._wrong or self._method.judge(enclosed)
                self._last = enclosed
        if final:
            self._complete(self._last, self._wrong)

    def _complete(self, body: bytes, error: str | None, status_message: str = "") -> None:
        if self._answer is not None:
            raise MalformedResponse("an answer after the last one")
        self.done = self.came
        answers = Answers(body, error, status_message, self._method)
        answers.came = tuple(self._came)
        self._answer = answers


def _is_final(response: Any) -> bool:
    """Return True if no response follows this one. An error without a final flag ends its request."""
    for parameter in response.infer_response.parameters:
        if parameter.key == FINAL:
            return bool(parameter.value.bool_param)
    return bool(response.error_message)


class AnswerRecorder:
    """The answers to requests of the interval: how soon the first comes, how far they are apart, how many there are."""

    def __init__(self) -> None:
        self.first, self.between = Histogram(), Histogram()
        self.answers = self.requests = self.came = 0
        self._raw: list[tuple[int, tuple[int, ...]]] = []

    def take(self, outcome: Outcome) -> None:
        """Take one outcome."""
        response = outcome.response
        if isinstance(response, Answers) and outcome.error is None:
            self._raw.append((outcome.scheduled, response.came))

    def flush(self, start: int, end: int) -> None:
        """Count what has been gathered, for an interval in ns: by the requests' schedule, `came` by its own time."""
        raw, self._raw = self._raw, []
        first, between = [], []
        for scheduled, came in raw:
            self.came += sum(start <= at < end for at in came)
            if start <= scheduled < end:
                self.requests += 1
                self.answers += len(came)
                if came:
                    first.append(came[0] - scheduled)
                    between += np.diff(came).tolist()
        self.first.record(np.array(first, dtype=np.int64))
        self.between.record(np.array(between, dtype=np.int64))
