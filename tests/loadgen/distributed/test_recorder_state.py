"""Distributed load: the shares together are one load, and what several recorded is what one would have."""

import random
from itertools import count
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it has no stubs
import numpy as np
import pytest

from loadgen.distributed.clock_offset import ClockOffset, RoundTrip
from loadgen.distributed.recorder_state import merged, state_of
from loadgen.distributed.worker_view import WorkerView
from loadgen.load.share import Share
from loadgen.measurement.output_agreement import Checked, check
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.channel import Outcome, Payload
from servemark.repository.entry import Golden
from servemark.workload import Agreement, Tensor
from tests.support.load_config import config

S, MS = 1_000_000_000, 1_000_000
LOADS = {
    "poisson": ["--request-rate", "300"],
    "constant": ["--request-rate", "300", "--request-distribution", "constant"],
    "gamma": ["--request-rate", "300", "--request-distribution", "gamma", "--gamma-cv", "3"],
    "stages": ["--stages", "1:100,0.5:0,1:400"],
    "trace": ["--trace", "{trace}"],
}


@pytest.mark.parametrize("of", [1, 2, 3, 7, 400])
@pytest.mark.parametrize("load", LOADS)
def test_the_shares_together_are_the_whole_schedule(load: str, of: int, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("".join(f"{0.007 * number:.3f},{number % 5}\n" for number in range(200)))
    flags = [flag.format(trace=trace) for flag in LOADS[load]]
    whole = config("ranking_tiny", *flags, "--duration", "2", "--warmup", "0.5").scenario.schedule(5)
    assert whole is not None
    assert whole.size > 100
    sent: list[tuple[int, int]] = []
    for index in range(of):
        share = Share(index, of)
        arrivals = share.arrivals(whole).tolist()
        assert len(arrivals) == share.count(whole.size)
        sent += zip(arrivals, share.requests(count()), strict=False)
    # each arrival once, with the request that one process would have sent then
    assert sorted(sent) == sorted(zip(whole.tolist(), count(), strict=False))


@pytest.mark.parametrize("of", range(1, 9))
def test_connections_are_split_evenly(of: int) -> None:
    for whole in (0, 1, 5, 8, 1024):
        parts = [Share(index, of).count(whole) for index in range(of)]
        assert sum(parts) == whole
        assert max(parts) - min(parts) <= 1


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
    for name in ("scheduled", "completed", "outside", "in_flight_at_start", "late", "errors"):
        assert getattr(one, name) == getattr(all_of_them, name), name
    assert all_of_them.waited_delay.count > 100
    assert {kind: len(said) for kind, said in all_of_them.messages.items()} == {"timeout": 5, "http_503": 5}
    for theirs, ours in zip(one.windows, all_of_them.windows, strict=True):
        assert np.array_equal(theirs.latency.counts, ours.latency.counts)
        assert (theirs.scheduled, theirs.completed, theirs.errors) == (ours.scheduled, ours.completed, ours.errors)


def test_a_worker_that_was_lost_before_the_interval_was_prolonged_is_merged_too() -> None:
    """Its windows are half as long as the others' by then."""
    early, late = (Recorder(Interval(0, 10 * S, 10), least=float("inf")) for _ in range(2))
    for recorder, until_s in ((early, 10), (late, 14)):
        for second in range(until_s):
            recorder.outcome(Outcome(Payload(b""), second * S, second * S, second * S + MS, None, "", None))
            recorder.tick(second * S + S // 2)
    late.end_at(14 * S)
    late.tick(14 * S)
    assert late.is_over(14 * S)
    whole = merged(Interval(0, 10 * S, 10), [over_the_wire(early), over_the_wire(late)])
    assert (whole.interval.end, whole.interval.windows) == (14 * S, 7)
    assert [window.scheduled for window in whole.windows] == [4, 4, 4, 4, 4, 2, 2]


class Golds:
    """An answer to golden rows."""

    error, size = None, 0

    def __init__(self, **arrays: Any) -> None:
        self._arrays = arrays

    def message(self) -> str:
        return ""

    def arrays(self, _outputs: Any) -> Any:
        return self._arrays


@pytest.mark.parametrize("spoilt", [None, 3.0, float("nan")])
def test_merged_comparisons_equal_one_of_everything(spoilt: float | None) -> None:
    rng = np.random.default_rng(1)
    outputs = [Tensor("scores", "FP64", (4,)), Tensor("ids", "INT64", (2,))]
    golden = Golden({}, {"scores": rng.random((6, 4)), "ids": rng.integers(0, 9, (6, 2))})
    sampled: list[Any] = []
    for row in range(6):
        scores, ids = golden.outputs["scores"][[row]].astype("f4") + 1e-5 * row, golden.outputs["ids"][[row]].copy()
        if row == 4:
            ids[0, 1] += 1
            scores[0, 0] += 0 if spoilt is None else spoilt
        sampled.append(((row,), Golds(scores=scores, ids=ids)))
    limits = Agreement(min_match=0.9)
    one = check(sampled, golden, outputs, limits)
    parts = [check(part, golden, outputs, limits) for part in (sampled[:1], sampled[1:4], sampled[4:], [])]
    together = Checked.joined(parts, outputs, limits)
    assert (together.answers, together.rows) == (6, 6)
    for name, theirs in one.found.items():
        ours = together.found[name]
        assert ours.agrees == theirs.agrees
        assert ours.max_abs == theirs.max_abs
        assert (ours.match_share, ours.top1_share) == pytest.approx((theirs.match_share, theirs.top1_share))
    # one of two ids of one of six rows: 11 of 12 are equal
    assert together.found["ids"].agrees
    assert together.found["scores"].agrees is (spoilt is None)


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
        assert found.uncertainty_ns <= min(trip.length for trip in trips) // 2 + 1
        assert found.theirs(now) == now + found.offset_ns


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
