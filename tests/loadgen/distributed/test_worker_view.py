"""A worker as its master sees it."""

from typing import Any

from loadgen.distributed.recorder_state import state_of
from loadgen.distributed.untrusted import Expected
from loadgen.distributed.worker_view import WorkerView
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval

S, MS = 1_000_000_000, 1_000_000
EXPECTED = Expected(longest_ns=5 * S, windows=5)


def report() -> dict[str, Any]:
    return {
        "run": "", "kind": "state", "final": False, "interrupted": None, "cpu_utilization": 0.1, "max_in_flight": 2,
        "granted": {"priority": "normal", "note": None}, "checked": None, "warm_up": None,
        "traffic": {"scheduled": 1, "sent": 1, "in_flight": 0, "backlog": 0},
        "recorder": state_of(Recorder(Interval(0, 5 * S, 5))),
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
