"""A worker as its master sees it, and how far its clock is off."""

import random
from typing import Any

from loadgen.distributed.messages import Expected, state_of
from loadgen.distributed.worker_view import ClockOffset, RoundTrip, WorkerView
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval

S, MS = 1_000_000_000, 1_000_000
EXPECTED = Expected(longest_ns=5 * S, windows=5)


def report(recorder: Recorder | None = None, **changes: Any) -> dict[str, Any]:
    """A worker's report; by default nothing was recorded."""
    return {
        "run": "", "kind": "state", "final": False, "interrupted": None, "cpu_utilization": 0.1, "max_in_flight": 2,
        "granted": {"priority": "normal", "note": None}, "checked": None, "warm_up": None,
        "traffic": {"scheduled": 1, "sent": 1, "in_flight": 0, "backlog": 0},
        "recorder": state_of(recorder or Recorder(Interval(0, 5 * S, 5))), **changes,
    }  # fmt: skip


def test_a_member_is_blamed_for_silence_and_absence_and_heard_again() -> None:
    member = WorkerView("a_host_1", 0)
    member.on_message({"run": "", "kind": "ready", "host": "a", "pid": 7, "fingerprint": {}}, 1 * S, None)
    member.watch(None, 5)
    assert member.trouble is None
    member.watch("it was lost", 6)
    assert not member.gone, "its last report may be on the way"
    assert member.trouble is None
    member.watch("it was lost", 9)
    assert member.gone
    assert str(member.trouble) == "it was lost"
    member.on_message(report(), 10 * S, EXPECTED)
    member.watch(None, 10)
    assert not member.gone
    assert str(member.trouble) == "it was lost", "what happened stays told"
    silent = WorkerView("b", 1)
    silent.on_message(report(), 1 * S, EXPECTED)
    silent.watch(None, 12)
    assert "reported nothing for 11 s" in (silent.trouble or "")


def test_the_clock_offset_is_true_to_within_its_uncertainty_whichever_way_was_slow() -> None:
    rng, offset = random.Random(3), -987_654_321_012  # noqa: S311 - no secret
    for _ in range(200):
        trips, now = [], rng.randrange(10**12)
        for _ in range(10):
            there, back = rng.randrange(20 * MS), rng.randrange(20 * MS)
            trips.append(RoundTrip(now, now + there + offset, now + there + back))
            now += there + back + 1000
        found = ClockOffset.estimate(trips)
        assert abs(found.offset_ns - offset) <= found.uncertainty_ns
        assert found.uncertainty_ns <= min(trip.received - trip.sent for trip in trips) // 2 + 1
        assert found.theirs(now) == now + found.offset_ns
