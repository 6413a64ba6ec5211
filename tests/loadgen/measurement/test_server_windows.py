"""The server's counters of each window: those that came in time, and reasons for the others."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from loadgen.measurement.recorder import Recorder
from loadgen.measurement.server_windows import ServerWindows, edges_of
from loadgen.measurement.windows import Interval
from servemark.stats.unknown import Unknown, unknown

S = 1_000_000_000
INTERVAL = Interval(100 * S, 104 * S, 4, by_second=True)


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
