"""Messages of lying workers, which differ from those of honest ones."""

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

from loadgen.distributed.messages import merged, state_of
from loadgen.distributed.untrusted import Expected, MalformedMessage, check_message
from loadgen.distributed.worker_view import WorkerView
from loadgen.load.warm_up import WarmUp
from loadgen.measurement.windows import Interval
from servemark.workload.agreement import COLUMNS
from tests.loadgen.distributed.test_messages import outcomes, over_the_wire, recorded
from tests.loadgen.distributed.test_worker_view import report

S = 1_000_000_000
INTERVAL = Interval(0, 5 * S, 5)
WARM_UP = WarmUp(0, 3.0)
EXPECTED = Expected(5 * S, 5, warm_up_windows=WARM_UP.windows, outputs=["scores"], samples=4)


def honest() -> dict[str, Any]:
    """A report as the wire brings it, with all of its parts."""
    recorder = recorded(outcomes(500, random.Random(3)), INTERVAL)  # noqa: S311 - no secret
    row = [1.0] * COLUMNS
    checked = {"answers": 3, "samples": [0, 2], "found": {"scores": [row, row]}}
    parts = {"recorder": over_the_wire(recorder), "warm_up": WARM_UP.pack(S, None), "checked": checked}
    return {**report(), **parts}


def changed(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(message: dict[str, Any]) -> None:
        place: Any = message
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


LIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "no windows": changed("recorder", "windows", to=[]),
    "a window that is a number": changed("recorder", "windows", 0, to=7),
    "no errors": lambda message: message["recorder"].pop("errors"),
    "negative errors": changed("recorder", "errors", to={"timeout": -5}),
    "a slot that no histogram has": changed("recorder", "latency", 0, to=b"\xff\xff"),
    "slots twice": lambda message: message["recorder"]["latency"].__setitem__(0, b"\0" * 4),
    "a sum that is not a number": changed("recorder", "latency", 5, to=float("nan")),
    "more answers in the interval than in the run": changed("recorder", "answered", to=0),
    "a clock of words": changed("recorder", "clock", to=["none", 0, 0, []]),
    "an interval of 30 years": changed("recorder", "length_ns", to=10**18),
    "an interval of nothing": changed("recorder", "length_ns", to=0),
    "more waits than requests": lambda message: message["recorder"].update(
        waited_delay=copy.deepcopy(message["recorder"]["latency"])
    ),
    "more requests than answers": changed("recorder", "scheduled", to=10**6),
    "a count of 2 to the 63": changed("recorder", "completed", to=2**63),
    "a true count": changed("recorder", "late", to=True),
    "a word for a count": changed("max_in_flight", to="many"),
    "seconds of no trace": changed("recorder", "seconds", to=[[], [], []]),
    "a thousand kinds": changed("recorder", "errors", to={str(n): 0 for n in range(1000)}),
    "a message of 1 MB": changed("recorder", "messages", to={"timeout": ["x" * 1_000_000]}),
    "a priority that there is not": changed("granted", to={"priority": "royal", "note": None}),
    "no priority": changed("granted", to=None),
    "an infinite share": changed("cpu_utilization", to=float("inf")),
    "no traffic": changed("traffic", to={}),
    "a warm-up of other windows": changed("warm_up", "windows", to=[[1], [1], [1]]),
    "another output": changed("checked", "found", to={"other": [[1.0] * COLUMNS] * 2}),
    "a golden sample that there is not": changed("checked", "samples", to=[0, 4]),
    "rows of one figure": changed("checked", "found", to={"scores": [[1.0], [1.0]]}),
    "no report": changed("recorder", to=None),
    "no kind": changed("kind", to=["state"]),
    "final": changed("final", to="yes"),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_lie_is_told(lie: Callable[[dict[str, Any]], None]) -> None:
    message = honest()
    lie(message)
    with pytest.raises(MalformedMessage):
        check_message(message, EXPECTED)


@pytest.mark.parametrize("message", [None, [], 7, {}, {"run": 1}, {"run": "", "kind": "state"}])
def test_what_is_not_a_message_drops_the_worker(message: Any) -> None:
    worker = WorkerView("a", 0)
    worker.on_message(message, S, None)
    assert worker.dropped
    assert "its share is lost" in str(worker.trouble)


def test_clocks_and_exit_codes_are_bounded() -> None:
    for lie in (
        {"kind": "pong", "sent_ns": 0, "clock_ns": 2**63},
        {"kind": "failed", "what": "w", "fix": None, "exit_code": 10**9},
        {"kind": "ready", "host": "h", "pid": 1, "fingerprint": {"a": 1}},
        {"kind": "join", "token": None},
    ):
        with pytest.raises(MalformedMessage):
            check_message({"run": "", **lie}, EXPECTED)


def test_what_is_taken_can_be_counted() -> None:
    message = honest()
    check_message(message, EXPECTED)
    whole = merged(INTERVAL, [message["recorder"]] * 2)
    assert whole.scheduled == 2 * message["recorder"]["scheduled"]
    assert state_of(whole)["scheduled"] == whole.scheduled
