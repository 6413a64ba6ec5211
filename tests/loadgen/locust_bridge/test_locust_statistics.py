"""Locust's own statistics, against the same requests as Locust's events."""

from typing import Any

import locust.stats
import numpy as np
import numpy.typing as npt
import pytest
from locust.env import Environment

from loadgen.locust_bridge.locust_statistics import METHOD, LocustStatistics
from loadgen.sut.channel import Outcome, Payload

MS = 1_000_000
LATENCIES_MS = [0.2, 0.5, 1.5, 2.5, 99.4, 99.6, 104.9, 105.1, 949.0, 1049.0, 30_123.0]


def times(*latencies_ms: float) -> npt.NDArray[np.int64]:
    """Requests that took so long; answers of 1,000 bytes."""
    return np.array([(5, 5, 5 + round(latency_ms * MS), 1000) for latency_ms in latencies_ms])


def failed(latency_ms: float, error: str) -> Outcome:
    """A request that failed after so long, without an answer."""
    return Outcome(Payload(b""), 5, 5, 5 + round(latency_ms * MS), error, "", None)


def locusts(environment: Environment, name: str) -> dict[str, Any]:
    """Return Locust's statistics of a name, apart from wall-clock times."""
    entry = environment.stats.entries[name, METHOD]
    known = {key: getattr(entry, key) for key in ("num_requests", "num_failures", "total_content_length")}
    known |= {key: getattr(entry, key) for key in ("min_response_time", "max_response_time", "median_response_time")}
    known |= {"response_times": dict(entry.response_times), "failed": sum(entry.num_fail_per_sec.values())}
    return known | {"mean": pytest.approx(entry.avg_response_time), "seconds": sum(entry.num_reqs_per_sec.values())}


@pytest.fixture
def environment() -> Environment:
    made = Environment()
    made.create_local_runner()
    return made


def test_requests_added_together_are_what_events_would_have_made_of_them(environment: Environment) -> None:
    statistics = LocustStatistics(environment)
    statistics.begin("together")
    for some in (LATENCIES_MS[:5], LATENCIES_MS[5:]):
        statistics.good(times(*some))
    for latency_ms in LATENCIES_MS:
        environment.events.request.fire(
            request_type=METHOD, name="one by one", response_time=latency_ms, response_length=1000, context={}
        )
    assert locusts(environment, "together") == locusts(environment, "one by one")
    assert environment.stats.total.num_requests == 2 * len(LATENCIES_MS)
    assert environment.stats.total.last_request_timestamp is not None


def test_a_users_own_buckets_are_kept(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locust.stats, "bucket_response_time", lambda _ms: 7)
    statistics = LocustStatistics(environment)
    statistics.begin("m")
    statistics.good(times(*LATENCIES_MS))
    assert locusts(environment, "m")["response_times"] == {7: len(LATENCIES_MS)}


def test_failed_requests_are_events_at_once(environment: Environment) -> None:
    statistics = LocustStatistics(environment)
    statistics.begin("m")
    statistics.failed(failed(1.0, "http_500"), "no memory")
    statistics.failed(failed(30.0, "timeout"), "late")
    assert locusts(environment, "m")["num_failures"] == 2
    assert {error.error for error in environment.stats.errors.values()} == {"http_500: no memory", "timeout: late"}


def test_another_listener_sees_every_request_from_when_it_listens(environment: Environment) -> None:
    seen: list[float] = []

    def listen(response_time: float, **_: Any) -> None:
        seen.append(response_time)

    statistics = LocustStatistics(environment)
    statistics.begin("m")
    statistics.good(times(1.0))
    environment.events.request.add_listener(listen)
    statistics.good(times(2.0, 3.0))
    environment.events.request.remove_listener(listen)
    statistics.good(times(4.0))
    assert seen == [2.0, 3.0]
    assert locusts(environment, "m")["num_requests"] == 4


def test_a_listener_in_locusts_place_sees_every_request(environment: Environment) -> None:
    """Somebody may take away Locust's own listener for the sake of theirs."""
    seen: list[str] = []
    environment.events.request._handlers.clear()
    environment.events.request.add_listener(lambda name, **_: seen.append(name))
    statistics = LocustStatistics(environment)
    statistics.begin("m")
    statistics.good(times(1.0))
    assert seen == ["m"]


def test_nothing_is_patched_here() -> None:
    """Keep the promise of tests/loadgen/conftest.py to every other test of this process."""
    from gevent.monkey import saved

    assert saved == {}
