"""Several servers in one run: each gets every n-th request, whatever the others do, and has figures of its own."""

from pathlib import Path
from typing import Any

import pytest

from loadgen.sut.channel import Outcome
from loadgen.transport.server_url import normal_urls
from loadgen.variants.servers import OfServer, RoundRobin, ServerRecorder
from servemark.errors import OptionError
from servemark.figures.registry import count_of
from tests.golden.grpc import GoldenGrpc
from tests.golden.load import TargetLoad, constant_ns, target_at
from tests.golden.server import GoldenServer
from tests.support.load_config import of_server, request_of
from tests.support.result_checks import counted_result, run_here


class Shared(TargetLoad):
    """Load on two servers."""

    def connections(self) -> RoundRobin:
        return RoundRobin(self._target.connect, self.max_in_flight, 2)


def load_on(first: Any, second: Any) -> Shared:
    return Shared(target_at(f"{first.url},{second.url}"))


def servers_of(outcomes: list[Outcome]) -> list[int]:
    """The servers of outcomes in the order of their schedule."""
    found = []
    for outcome in sorted(outcomes, key=lambda each: each.scheduled):
        assert isinstance(outcome.payload, OfServer)
        found.append(outcome.payload.server)
    return found


@pytest.mark.parametrize("golden", [GoldenServer, GoldenGrpc])
def test_servers_take_requests_in_turn_also_where_one_is_slow(golden: Any) -> None:
    with golden() as fast, golden(delay_s=0.03) as slow:
        load = load_on(fast, slow).open(constant_ns(500, 60))
        seen = [server.log()["requests"] for server in (fast, slow)]
    assert [each if isinstance(each, int) else len(each) for each in seen] == [30, 30]
    assert load.kinds == {"ok": 60}
    assert servers_of(load.outcomes) == [0, 1] * 30


def test_a_request_names_the_server_that_gets_it() -> None:
    with GoldenServer() as first, GoldenServer() as second:
        payload = next(target_at(f"{first.url},{second.url}").payloads(None))
    for request, server in zip(payload.request, (first, second), strict=True):
        assert f"\r\nHost: {server.address}\r\n".encode() in request


@pytest.mark.parametrize("loop", ["open", "closed"])
def test_a_server_that_dies_has_failures_and_the_other_has_none(loop: str) -> None:
    with GoldenServer() as alive, GoldenServer() as dead:
        load = load_on(alive, dead)
        load.connect = 4
        dead.kill()
        load.open(constant_ns(200, 40)) if loop == "open" else load.closed(4, 0.3)
    recorder = ServerRecorder([alive.url, dead.url])
    for outcome in load.outcomes:
        recorder.take(outcome)
    recorder.flush(0, 1 << 62)
    good, failed = recorder.latency
    assert (good.failed, failed.count) == (0, 0)
    assert abs(good.count - failed.failed) <= 4
    assert recorder.errors[1].keys() <= {"connection_refused", "connection_closed", "connection_reset"}
    assert failed.failed == recorder.errors[1].total() > 1


def test_a_run_has_a_figure_for_each_server(tmp_path: Path) -> None:
    flags = ["--request-rate", "100", "--duration", "1", "--warmup", "0.2", "--out", str(tmp_path)]
    with GoldenServer(delay_s=0.02) as slow, GoldenServer(error_every=4) as failing:
        urls = ["--url", slow.url, "--url", failing.url]
        _, text = run_here(of_server(f"{slow.url},{failing.url}", *flags, model="golden"))
        assert request_of("golden", *urls).server.url == f"{slow.url},{failing.url}"
        received = [len(server.requests()) for server in (slow, failing)]
    result = counted_result(tmp_path, sum(received))
    assert result["resolved"]["urls"] == [slow.url, failing.url]
    first, second = result["details"]["servers"]
    good, failed = ([count_of(each, tag) for each in (first, second)] for tag in ("requests.answered", "errors.count"))
    assert abs(good[0] + failed[0] - good[1] - failed[1]) <= 1
    assert sum(good) == count_of(result, "requests.answered")
    assert (failed[0], second["errors_by_kind"]) == (0, result["details"]["errors"]["by_kind"])
    assert failed[1] == count_of(result, "errors.count")
    assert first["figures"]["latency.min"]["value"] >= 20
    assert f"http_500 {failed[1]}" in text


@pytest.mark.parametrize(
    "text", ["http://a:1,http://a:1", "http://a:1,grpc://b:1", "http://a:1,", "http://a:1,http://u@b:1"]
)
def test_servers_that_cannot_share_a_load_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="--url"):
        normal_urls(text)


@pytest.mark.parametrize(
    ("flags", "excluded"),
    [
        (
            "--url http://a:1,http://b:1",
            ["--sequence-length 3", "--shared-memory system", "--workers 2", "--explain"],
        ),
        ("--no-connection-reuse", ["--sequence-length 3", "--protocol grpc --streaming", "--explain"]),
        ("--request-compression gzip", ["--sequence-length 3", "--shared-memory system", "--workers 2"]),
        ("--request-cancellation 5%:200ms", ["--sequence-length 3", "--shared-memory system", "--in-process"]),
    ],
)
def test_variants_that_exclude_other_options(flags: str, excluded: list[str]) -> None:
    variant = flags.split(maxsplit=1)[0]
    for each in excluded:
        other = each[each.rindex("--") :].split()[0]
        with pytest.raises(OptionError, match=f"{variant}.* excludes {other}"):
            request_of("golden", *flags.split(), *each.split())
