"""Requests that are given up: exactly a share of them, told to the server, and apart from all other figures."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hyperframe.frame import ContinuationFrame, DataFrame, HeadersFrame, RstStreamFrame

from loadgen.sut.channel import Outcome, Payload
from loadgen.variants.cancellation import CANCELLED, Cancellation, CancellationRecorder, ToCancel
from servemark.documents.texts import cancellation
from servemark.errors import OptionError
from servemark.figures.registry import count_of, value_of
from tests.golden.grpc import GoldenGrpc
from tests.golden.load import constant_ns
from tests.golden.server import GoldenServer
from tests.support.grpc_load import GrpcLoad
from tests.support.http2_peer import Peer, answer, answering, plain
from tests.support.load_config import of_server
from tests.support.locust_run import the_result
from tests.support.raw_server import raw_server
from tests.support.result_checks import check_schema, run_here


def marked(share: float, count: int, seed: str = "1") -> list[bool]:
    requests = Cancellation(share, 0.2, seed).requests(itertools.repeat(Payload(b"x")))
    return [isinstance(payload, ToCancel) for payload in itertools.islice(requests, count)]


@pytest.mark.parametrize(("share", "chosen", "of"), [(0.05, 1, 20), (0.5, 1, 2), (0.333, 333, 1000), (0.002, 1, 500)])
def test_the_share_is_exact_in_each_block(share: float, chosen: int, of: int) -> None:
    found = marked(share, 5 * of)
    assert [sum(found[start : start + of]) for start in range(0, 5 * of, of)] == [chosen] * 5


def test_the_places_are_those_of_the_seed() -> None:
    assert marked(0.05, 400) == marked(0.05, 400) != marked(0.05, 400, "2")
    assert len({marked(0.05, 400)[start : start + 20].index(True) for start in range(0, 400, 20)}) > 5


def measured(tmp_path: Path, url: str, *flags: str) -> str:
    """Run such a load; what a terminal shows of it."""
    load = ["--duration", "1.2", "--warmup", "0.2", "--request-cancellation", "25%:40ms", "--out", str(tmp_path)]
    return run_here(of_server(url, *load, *flags, model="golden"))[1]


def check(tmp_path: Path, received: int) -> tuple[int, int]:
    """Return how many of how many were given up."""
    result = the_result(tmp_path)
    check_schema(result)
    of, cancelled, answered = (
        count_of(result, f"cancellation.{name}") for name in ("requests", "cancelled", "answered")
    )
    inside = count_of(result, "requests.answered") + of
    assert of == cancelled + answered == pytest.approx(inside / 4, abs=4)
    assert value_of(result, "errors.count") == 0
    assert cancelled > 0
    assert result["figures"]["given_up.min"]["value"] >= 40
    assert inside + count_of(result, "generator.requests_outside_interval") == received
    return cancelled, of


def test_over_http_the_connection_is_closed(tmp_path: Path) -> None:
    with GoldenServer(delay_s=0.15) as server:
        text = measured(tmp_path, server.url, "--request-rate", "60")
        requests = server.requests()
    cancelled, of = check(tmp_path, len(requests))
    assert sum(entry["written_ns"] is None for entry in requests) >= cancelled
    assert f"cancelled: {cancelled:,} of {of:,} requests" in text


def test_over_grpc_the_call_is_cancelled_and_the_connection_goes_on(tmp_path: Path) -> None:
    with GoldenGrpc(delay_s=0.15) as server:
        measured(tmp_path, server.url, "--concurrency", "4")
        log = server.log()
    cancelled, _ = check(tmp_path, log["requests"])
    assert log["cancelled"] >= cancelled
    assert len(log["peers"]) <= 5  # the first request has a connection of its own


def late_answer(has_come: list[int], parts: Any) -> Any:
    """A peer that answers the first request after it was told that nobody waits, and the next as usual."""

    def respond(peer: Peer, stream: int) -> None:
        has_come.append(stream)
        if stream > 1:
            plain(peer, stream)
            return
        while not isinstance(peer.frame(), RstStreamFrame):
            pass
        peer.send(*parts(peer, stream))

    return respond


def in_pieces(peer: Peer, stream: int) -> list[Any]:
    """An answer whose header block comes in two frames."""
    block = peer.head(stream).data
    first, rest = HeadersFrame(stream, block[:3]), ContinuationFrame(stream, block[3:], flags=["END_HEADERS"])
    return [first, rest, DataFrame(stream, answer()), peer.trailers(stream)]


@pytest.mark.parametrize("parts", [lambda peer, stream: peer.whole(stream, answer()), in_pieces])
def test_an_answer_that_comes_too_late_is_passed_over(parts: Any) -> None:
    has_come: list[int] = []
    with raw_server(answering(late_answer(has_come, parts))) as (port, accepted):
        load = GrpcLoad(port, max_in_flight=1)
        load.cancels = lambda channel: bool(has_come) and not load.outcomes and bool(channel.sent)
        load.open(constant_ns(20, 4))
    assert load.kinds == {CANCELLED: 1, "ok": 3}
    assert (has_come, accepted) == ([1, 3, 5, 7], [1])


def test_each_end_of_a_marked_request_is_counted_once() -> None:
    recorder = CancellationRecorder()
    ends = [(5, CANCELLED), (6, None), (7, "http_500"), (8, "timeout"), (50, None), (60, CANCELLED)]
    for scheduled, error in ends:
        recorder.take(Outcome(ToCancel(b""), scheduled, scheduled, scheduled + 3, error, "", None))
    recorder.flush(0, 10)
    assert (recorder.requests, recorder.given_up.count, recorder.answered, recorder.outside) == (4, 1, 1, 2)
    assert recorder.failed == {"http_500": 1, "timeout": 1}


@pytest.mark.parametrize("text", ["5%", "60%:1", "0:1", "5%:-1", "x:1"])
def test_what_is_not_a_share_and_a_time_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="--request-cancellation"):
        cancellation("--request-cancellation", text)
