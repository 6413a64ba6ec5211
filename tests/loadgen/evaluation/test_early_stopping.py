"""Judgement of a run's tail by MLPerf's early-stopping criterion."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.evaluation.early_stopping import early_stopping
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from servemark.stats.percentiles import over_allowed, percentile_key
from tests.support.measured import outcome

S = 1_000_000_000


def stopping(recorder: Recorder) -> Any:
    return early_stopping(recorder.latency, recorder.errors.total())


def recorded(*latencies_ms: float, failed: int = 0) -> Recorder:
    recorder = Recorder(Interval(0, S, 1))
    for ms in latencies_ms:
        recorder.outcome(outcome(0, 0, round(ms * 1e6)))
    for _ in range(failed):
        recorder.outcome(outcome(0, 0, 5, "timeout"))
    recorder.flush()
    return recorder


def test_bounds_are_order_statistics() -> None:
    latencies = [float(ms) for ms in range(1, 663)]
    found = stopping(recorded(*latencies))
    assert (found["requests"], found["confidence"]) == (662, 0.99)
    # of 662, one may lie beyond p99's bound
    assert found["bounds_ms"]["p99"] == pytest.approx(661, rel=1e-3)
    assert found["bounds_ms"]["p99_9"] is None
    assert found["bounds_ms"]["p99_9_reason"] == "needs 4,603 requests, has 662"
    for percentile in (50.0, 90.0, 95.0):
        allowed = over_allowed(percentile, 662)
        assert allowed is not None
        bound = found["bounds_ms"][percentile_key(percentile)]
        assert bound == pytest.approx(662 - allowed, rel=1e-3)
        # beyond the point estimate, by no more than chance
        assert 1 < bound / (662 * percentile / 100) < 1.2


def test_failed_requests_lie_beyond_every_bound() -> None:
    one = stopping(recorded(*[float(ms) for ms in range(1, 662)], failed=1))
    assert one["bounds_ms"]["p99"] == pytest.approx(661, rel=1e-3)
    two = stopping(recorded(*[5.0] * 660, failed=2))
    assert two["bounds_ms"]["p99"] is None
    assert two["bounds_ms"]["p99_reason"] == "2 requests failed, 1 may lie beyond any bound"


@given(st.lists(st.floats(0.1, 1e5), min_size=1, max_size=80), st.floats(0.1, 1e5))
def test_counting_above_a_limit_agrees_with_the_percentiles(latencies: list[float], limit_ms: float) -> None:
    latency = recorded(*latencies).latency
    above = latency.count_above(limit_ms)
    assert above == pytest.approx(
        sum(ms > limit_ms for ms in latencies), abs=sum(abs(ms / limit_ms - 1) < 1e-3 for ms in latencies)
    )
    assert above == latency.count or latency.at_rank(latency.count - above) <= limit_ms
    assert above == 0 or latency.at_rank(latency.count - above + 1) > limit_ms
