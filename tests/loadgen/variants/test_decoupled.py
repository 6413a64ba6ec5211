"""Several answers to a request: when each of them came, which was the last, and what is counted of them."""

import itertools
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from loadgen.kserve.grpc_call import Method, enclose
from loadgen.kserve.grpc_messages import message
from loadgen.sut.channel import Outcome, Payload, State
from loadgen.transport.limits import MalformedResponse
from loadgen.transport.tcp import Address
from loadgen.variants.decoupled import FINAL, AnswerRecorder, Answers, DecoupledStream, asking_for_final
from tests.golden.grpc import GoldenGrpc
from tests.support.grpc_load import GrpcLoad

GAP_S = 0.01


def load(server: GoldenGrpc, concurrency: int = 2) -> GrpcLoad:
    """A closed loop of requests that several answers follow."""
    made = GrpcLoad(server.port, streaming=True, kind=DecoupledStream)
    requests: Iterator[Payload] = (Payload(asking_for_final(payload.request)) for payload in made.payloads())
    made.requests = requests
    return made.closed(concurrency, 0.3)


def answers_of(outcome: Outcome) -> Answers:
    assert isinstance(outcome.response, Answers)
    return outcome.response


def test_every_answer_has_its_time() -> None:
    with GoldenGrpc(answers=3, gap_s=GAP_S) as server:
        done = load(server)
        assert done.kinds == {"ok": server.log()["requests"]}
        assert server.log()["streams"] == 2
    gaps: list[int] = []
    for outcome in done.good:
        came = answers_of(outcome).came
        assert len(came) == 3
        gaps += [later - earlier for earlier, later in itertools.pairwise(came)]
        assert outcome.sent <= came[0] <= came[-1] <= outcome.done
    assert min(gaps) >= 0
    assert max(gaps) >= GAP_S * 0.5e9  # two may be read at once on a busy machine


def test_a_request_may_have_no_answer_at_all() -> None:
    with GoldenGrpc(answers=0) as server:
        done = load(server)
        assert done.kinds == {"ok": server.log()["requests"]}
    assert {answers_of(outcome).came for outcome in done.good} == {()}


def test_an_error_ends_its_request_and_not_the_stream() -> None:
    with GoldenGrpc(answers=2, error_every=4) as server:
        done = load(server, 1)
        log = server.log()
    assert done.kinds == {"grpc_stream_error": log["requests"] // 4, "ok": log["requests"] - log["requests"] // 4}
    assert log["streams"] == 1


def test_a_stream_that_ends_is_a_failure() -> None:
    with GoldenGrpc(answers=2, end_every=5) as server:
        done = load(server, 1)
        assert done.kinds["grpc_aborted"] == server.log()["requests"] // 5


def streamed(*, last: bool = False, error: str = "", outputs: bool = True) -> bytes:
    """One enclosed message of a stream."""
    parameter = message("Parameter", key=FINAL, value=message("InferParameter", bool_param=last))
    tensors = [message("InferOutputTensor", name="OUTPUT0", datatype="FP32", shape=[1])] if outputs else []
    response = message("ModelInferResponse", model_name="m", parameters=[parameter], outputs=tensors)
    answer = message("ModelStreamInferResponse", error_message=error, infer_response=response)
    return enclose(answer.SerializeToString())


def stream(judged: list[bytes]) -> DecoupledStream:
    """A stream that waits for the answers to a request; nothing is sent."""
    nowhere = Address(socket.AF_INET, ("127.0.0.1", 1))
    reader: Any = SimpleNamespace(judge=judged.append)
    channel = DecoupledStream(nowhere, Method("/m", "h", 1 << 20, reader))
    channel.state = State.BUSY
    return channel


def feed(channel: Any, data: bytes, size: int) -> Answers | None:
    """Feed a stream with bytes in pieces."""
    for start in range(0, len(data), size):
        channel._on_data(data[start : start + size], 0)
    answer: Answers | None = channel._answer
    return answer


@pytest.mark.parametrize("size", [1, 2, 5, 7, 1 << 16])
def test_messages_may_come_in_any_pieces(size: int) -> None:
    judged: list[bytes] = []
    channel = stream(judged)
    messages = [streamed(), streamed(), streamed(last=True, outputs=False)]
    answer = feed(channel, b"".join(messages), size)
    assert judged == messages[:2]
    assert answer is not None
    assert (len(answer.came), answer.error, answer.body) == (2, None, messages[1])


def test_the_last_answer_may_say_itself_that_it_is_the_last() -> None:
    answer = feed(stream([]), streamed(last=True), 1 << 16)
    assert answer is not None
    assert len(answer.came) == 1


def test_an_answer_after_the_last_one_is_a_violation() -> None:
    with pytest.raises(MalformedResponse, match="after the last"):
        feed(stream([]), streamed(last=True) + streamed(), 1 << 16)


def test_bytes_that_are_no_message_end_the_request() -> None:
    answer = feed(stream([]), enclose(b"\xff\xff\xff"), 1 << 16)
    assert answer is not None
    assert answer.error == "malformed_response"


def test_the_figures_count_answers_and_the_times_between_them() -> None:
    recorder = AnswerRecorder()

    def tell(scheduled: int, *came: int, error: str | None = None) -> None:
        answers = Answers(b"", error, "", None)  # type: ignore[arg-type]
        answers.came = came
        recorder.take(Outcome(Payload(b""), scheduled, scheduled, 99, error, "", answers))

    tell(5, 12)  # due before the interval, answered in it
    tell(20, 30, 34, 44)
    tell(40)  # no answer
    tell(45, 55, 60)  # due in it, answered after it
    tell(46, 47, error="wrong_size")
    recorder.flush(10, 50)
    assert (recorder.requests, recorder.answers, recorder.came) == (3, 5, 4)
    assert (recorder.first.count, recorder.first.min_ns, recorder.first.max_ns) == (2, 10, 10)
    assert (recorder.between.count, recorder.between.min_ns, recorder.between.max_ns) == (3, 4, 10)
