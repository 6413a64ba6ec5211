"""Limits that end a run at the first request that decides it, and the server's counters of each window."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from loadgen.measurement.measurement import FEWEST_TO_ABORT, ServerWindows, edges_of, reason_to_abort
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.channel import Outcome, Payload
from servemark.errors import OptionError
from servemark.figures.registry import count_of
from servemark.results.objectives import parse_objectives
from servemark.stats.unknown import Unknown, unknown
from tests.golden.server import GoldenServer
from tests.support.load_config import request_of
from tests.support.locust_run import run, the_result
from tests.support.result_checks import check_schema

MS = 1_000_000
S = 1_000_000_000
INTERVAL = Interval(100 * S, 104 * S, 4, by_second=True)


def recorded(good: int, slow: int = 0, failed: int = 0) -> Recorder:
    recorder = Recorder(Interval(0, 10**12, 1))
    for number in range(good + slow):
        due = number * MS
        recorder.on_good((due, due, due + (900 if number < slow else 1) * MS, 8))
    for number in range(failed):
        recorder.outcome(Outcome(Payload(b""), number * MS, number * MS, 0, "timeout", "late", None))
    recorder.flush()
    return recorder


@pytest.mark.parametrize(
    ("limit", "seen", "aborts"),
    [
        ("errors:10%", {"good": FEWEST_TO_ABORT - 3, "failed": 2}, False),  # too few to judge
        ("errors:10%", {"good": 90, "failed": 10}, False),
        ("errors:10%", {"good": 89, "failed": 11}, True),
        ("p99:500", {"good": 5, "slow": 5}, False),  # of the 1,000 that p99 needs, 5 may be slow
        ("p99:500", {"good": 0, "slow": 11}, True),
        ("p99:500", {"good": 0, "failed": 11}, True),  # a failed request is longer than every limit
        ("service_p50:500", {"good": 60, "slow": 40}, False),
        ("service_p50:500", {"good": 40, "slow": 60}, True),
    ],
)
def test_a_limit_is_judged_by_what_is_measured_so_far(limit: str, seen: dict[str, int], aborts: bool) -> None:
    reason = reason_to_abort(parse_objectives(limit), recorded(**seen))
    assert (reason is not None) is aborts
    assert reason is None or reason.startswith(f"--abort-on {limit.split(':', maxsplit=1)[0]}:")


def test_a_run_ends_and_keeps_what_was_measured(tmp_path: Path) -> None:
    flags = ["--model-name", "m", "--request-rate", "100", "--duration", "60", "--warmup", "0.2"]
    flags += ["--max-in-flight", "2", "--abort-on", "errors:10%"]
    with GoldenServer(model="m", error_every=2, delay_s=0.1) as server:
        done = run("any_model", *flags, "--url", server.url, "--out", str(tmp_path))
        received = len(server.requests())
    result = the_result(tmp_path)
    check_schema(result)
    assert done.returncode == 2
    assert result["partial"]
    assert count_of(result, "errors.count") > 0
    assert result["details"]["errors"]["by_kind"]["interrupted"] > received, "what waited is not sent any more"
    assert "--abort-on errors:0.1" in done.stdout


@pytest.mark.parametrize("text", ["throughput:5", "errors:5ms", "p99"])
def test_what_cannot_be_judged_on_the_way_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="--abort-on"):
        request_of("", "--abort-on", text)


def test_users_think_between_their_requests(tmp_path: Path) -> None:
    flags = ["--model-name", "m", "--concurrency", "3", "--think-time", "0.2", "--duration", "1", "--warmup", "0"]
    with GoldenServer(model="m", delay_s=0.01) as server:
        run("any_model", *flags, "--url", server.url, "--out", str(tmp_path))
    # Each user sends at most once in 0.2 s.
    assert 3 < count_of(the_result(tmp_path), "requests.answered") <= 3 * (1 / 0.2 + 1)


class Server:
    """A server that answers `per_s` requests of 5 ms in the queue and 2 ms on the model, in batches of 4."""

    no_statistics = "the server gives no Triton statistics"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.requests, self.slow_s = 100 * S, 0, 0.0
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now)

    def statistics(self) -> dict[str, Any] | None:
        self.now += round(self.slow_s * S)
        times = {"queue": 5_000_000, "compute_infer": 2_000_000, "compute_input": 0, "compute_output": 0}
        counted = {key: {"count": self.requests, "ns": self.requests * each} for key, each in times.items()}
        success = {"success": {"count": self.requests, "ns": 0}}
        return {
            "inference_stats": counted | success,
            "inference_count": self.requests,
            "execution_count": self.requests // 4,
        }


def ticked(server: Server, seconds: list[float], *, available: bool = True, slow_at: float | None = None) -> Any:
    load: Any = SimpleNamespace(interval=INTERVAL, recorder=Recorder(INTERVAL))
    found = ServerWindows(cast(Any, server), available=available)
    for second in seconds:
        server.now, server.requests = round((100 + second) * S), round(max(second, 0) * 100)
        server.slow_s = 0.9 if second == slow_at else 0.0
        found.tick(server.now, load)
        deadline = time.monotonic() + 10
        while found._reader is not None and found._reader.is_alive() and time.monotonic() < deadline:
            time.sleep(0.001)
    return found


def test_each_window_has_the_difference_of_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)
    found = ticked(server, [-0.5, 0.02, 0.5, 1.04, 2.01, 3.03, 4.0])
    figures = found.figures(4)
    assert figures[1] == {"queue_ms": 5.0, "compute_infer_ms": 2.0, "batch_size_mean": pytest.approx(4, 0.05)}
    assert not [each for each in figures if isinstance(each, Unknown)]


def test_the_counters_of_the_end_are_those_of_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)
    found = ticked(server, [0.02, 1.04, 2.01, 3.03])
    assert isinstance(found.figures(4)[3], Unknown)
    server.requests = 400
    found.finish(server.statistics())
    assert (last := found.figures(4)[3]) is not None
    assert last["queue_ms"] == 5.0


def test_a_late_or_missing_answer_leaves_its_windows_without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ticked(Server(monkeypatch), [0.02, 1.04, 2.01, 3.03, 4.0], slow_at=2.01)
    assert [isinstance(each, Unknown) for each in found.figures(4)] == [False, True, True, False]
    assert "not read when it began or ended" in str(found.figures(4)[1])


def test_a_server_without_counters_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ticked(Server(monkeypatch), [0.02, 1.04], available=False)
    assert found._reader is None
    assert found.figures(1) == [unknown("the server gives no Triton statistics")]


def test_the_boundaries_are_those_of_the_windows_of_the_result() -> None:
    assert edges_of(Recorder(INTERVAL)) == [(100 + second) * S for second in range(5)]
    stages = Interval(0, 10 * S, 3, edges=(0, 2 * S, 5 * S, 10 * S))
    assert edges_of(Recorder(stages)) == [0, 2 * S, 5 * S, 10 * S]
