"""Messages of workers: what several recorded is what one would have, and lies are told from honest reports."""

import copy
import random
from collections.abc import Callable
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it has no stubs
import numpy as np
import pytest

from loadgen.distributed.messages import Expected, MalformedMessage, check_message, merged, state_of
from loadgen.distributed.worker_view import WorkerView
from loadgen.load.warm_up import WarmUp
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.channel import Outcome, Payload
from loadgen.sut.kernel_clock import KernelClock
from servemark.workload.agreement import COLUMNS
from tests.loadgen.distributed.test_worker_view import report

S, MS = 1_000_000_000, 1_000_000


def outcomes(number: int, rng: random.Random) -> list[Outcome]:
    """Outcomes in and around an interval of 0 to 5 s, some failed, some whose answer comes after its end."""
    made = []
    for _ in range(number):
        scheduled = rng.randrange(-S, 6 * S)
        sent = scheduled + rng.choice([0, 0, rng.randrange(3 * MS)])
        done = sent + round(rng.lognormvariate(17, 1))
        error = rng.choice([None] * 9 + ["timeout", "http_503"])
        message = f"said {rng.randrange(9)}" if error else ""
        made.append(Outcome(Payload(b""), scheduled, sent, done, error, message, None))
    return made


def recorded(given: list[Outcome], interval: Interval, start: int = 0) -> Recorder:
    """A recorder on a clock that is `start` ahead of the outcomes'."""
    recorder = Recorder(interval, waited=lambda scheduled: (scheduled - start) % 3 == 0)
    for each in given:
        at = {name: getattr(each, name) + start for name in ("scheduled", "sent", "done")}
        recorder.outcome(each._replace(**at))
    recorder.flush()
    recorder.clock = KernelClock()
    recorder.clock.missing, recorder.clock.refused = len(given), 1
    return recorder


def over_the_wire(recorder: Recorder) -> dict[str, Any]:
    """Its state as the master receives it."""
    state: dict[str, Any] = msgpack.loads(msgpack.dumps(state_of(recorder)), strict_map_key=False)
    return state


@pytest.mark.parametrize("edges", [(), (0, S, 2 * S, 2 * S + S // 2, 5 * S)])
def test_merged_recorders_equal_one_that_recorded_everything(edges: tuple[int, ...]) -> None:
    given = outcomes(3000, random.Random(7))  # noqa: S311 - no secret
    interval = Interval(0, 5 * S, len(edges) - 1 if edges else 5, edges, by_second=True)
    one = recorded(given, interval)
    # each worker has a clock of its own
    clocks = [0, 17 * S, 123_456_789]
    states = [
        over_the_wire(recorded(given[index::3], interval.begun_at(at), start=at)) for index, at in enumerate(clocks)
    ]
    all_of_them = merged(interval, states)
    for name in ("latency", "service_time", "schedule_delay", "waited_delay"):
        theirs, ours = getattr(one, name), getattr(all_of_them, name)
        assert np.array_equal(theirs.counts, ours.counts), name
        assert (theirs.count, theirs.min_ns, theirs.max_ns) == (ours.count, ours.min_ns, ours.max_ns)
        assert (ours.mean_ms(), ours.stdev_ms()) == pytest.approx((theirs.mean_ms(), theirs.stdev_ms()), rel=1e-12)
    assert one.clock is not None
    assert all_of_them.clock is not None
    assert (all_of_them.clock.missing, all_of_them.clock.refused) == (one.clock.missing, len(states))
    for name in ("answered", "scheduled", "completed", "outside", "in_flight_at_start", "late", "errors"):
        assert getattr(one, name) == getattr(all_of_them, name), name
    assert all_of_them.waited_delay.count > 100
    assert {kind: len(said) for kind, said in all_of_them.messages.items()} == {"timeout": 5, "http_503": 5}
    for theirs, ours in zip(one.windows, all_of_them.windows, strict=True):
        assert np.array_equal(theirs.latency.counts, ours.latency.counts)
        assert (theirs.scheduled, theirs.completed, theirs.errors) == (ours.scheduled, ours.completed, ours.errors)
    assert one.seconds is not None
    assert all_of_them.seconds is not None
    assert all_of_them.seconds.figures(5, 20.0) == one.seconds.figures(5, 20.0)
    assert state_of(one, final=False)["seconds"] is None


def test_a_worker_that_was_lost_before_the_interval_was_prolonged_is_merged_too() -> None:
    """Its windows are half as long as the others' by then."""
    early, late = (Recorder(Interval(0, 10 * S, 10), least=float("inf")) for _ in range(2))
    for recorder, until_s in ((early, 10), (late, 18)):
        for second in range(until_s):
            recorder.outcome(Outcome(Payload(b""), second * S, second * S, second * S + MS, None, "", None))
            recorder.tick(second * S + S // 2)
    late.end_at(18 * S)
    late.tick(18 * S)
    assert late.is_over(18 * S)
    whole = merged(Interval(0, 10 * S, 10), [over_the_wire(early), over_the_wire(late)])
    assert (whole.interval.end, whole.interval.windows) == (18 * S, 9)
    assert [window.scheduled for window in whole.windows] == [4, 4, 4, 4, 4, 2, 2, 2, 2]


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
