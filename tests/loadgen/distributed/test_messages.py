"""Distributed load: the shares together are one load, and what several recorded is what one would have."""

import random
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it has no stubs
import numpy as np
import pytest

from loadgen.distributed.messages import merged, state_of
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.channel import Outcome, Payload
from loadgen.sut.kernel_clock import KernelClock

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
    rng = random.Random(7)  # noqa: S311 - no secret
    windows = len(edges) - 1 if edges else 5
    given = outcomes(3000, rng)
    one = recorded(given, Interval(0, 5 * S, windows, edges))
    # each worker has a clock of its own
    clocks = [0, 17 * S, 123_456_789]
    states = [
        over_the_wire(
            recorded(given[index::3], Interval(at, at + 5 * S, windows, tuple(edge + at for edge in edges)), start=at)
        )
        for index, at in enumerate(clocks)
    ]
    all_of_them = merged(Interval(0, 5 * S, windows, edges), states)
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
