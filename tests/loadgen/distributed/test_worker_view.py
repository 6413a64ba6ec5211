"""A worker as its master sees it."""

from loadgen.distributed.worker_view import WorkerView

S, MS = 1_000_000_000, 1_000_000


def test_a_member_is_blamed_for_silence_and_absence_and_heard_again() -> None:
    member = WorkerView("a_host_1", 0)
    member.on_message({"kind": "ready", "host": "a", "pid": 7, "fingerprint": {}}, 1 * S)
    member.watch(None, 5)
    assert member.trouble is None
    member.watch("it was lost", 6)
    assert not member.gone, "its last report may be on the way"
    assert member.trouble is None
    member.watch("it was lost", 9)
    assert member.gone
    assert str(member.trouble) == "it was lost"
    member.on_message({"kind": "state", "final": False, "recorder": {}}, 10 * S)
    member.watch(None, 10)
    assert not member.gone
    assert str(member.trouble) == "it was lost", "what happened stays told"
    silent = WorkerView("b", 1)
    silent.on_message({"kind": "state", "final": False, "recorder": {}}, 1 * S)
    silent.watch(None, 12)
    assert "reported nothing for 11 s" in (silent.trouble or "")
