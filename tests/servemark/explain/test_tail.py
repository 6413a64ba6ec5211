"""Requests of known causes: each one's part of the slowest 1 % is what was put in, and its name is in the sentence."""

from dataclasses import replace

import numpy as np
import pytest

from servemark.explain.document import explanation
from servemark.explain.spans import pauses
from servemark.explain.tail import CAUSES, parts_of, rows
from servemark.explain.timeline import Setup
from servemark.results.schema.explanation import Explanation
from tests.support.explained import Synthetic

PLANTED = {
    None: Synthetic(rate=20),
    "instance": Synthetic(rate=105),
    "batch_fill": Synthetic(rate=20, setup=Setup(1, 32, 20_000_000)),
    "schedule": Synthetic(rate=20, late_ms=60),
    "connection": Synthetic(rate=20, connect_ms=60),
    "network": Synthetic(rate=20, way_ms=15),
    "pause": Synthetic(rate=40, pauses=tuple((at, 0.2) for at in range(3, 60, 3))),
    "other_work": Synthetic(rate=40, other_share=0.6),
    "batch_size": Synthetic(rate=100, service_ms=4, grows=0.6, setup=Setup(1, 64, 200_000_000, (32,))),
}


def _explained(case: Synthetic) -> Explanation:
    evidence = case.evidence()
    found = explanation(evidence.sent, evidence.served, evidence.machine, evidence.setup)
    assert found is not None
    return found


@pytest.mark.parametrize("cause", PLANTED)
def test_names_the_cause_that_was_planted(cause: str | None) -> None:
    found = _explained(PLANTED[cause])
    named = {cause, "batch_fill"} if cause == "batch_size" else {cause}
    assert found["cause"] in named, found["sentence"]
    assert (CAUSES[found["cause"]] if found["cause"] else "Nothing stands out") in found["sentence"]


@pytest.mark.parametrize("cause", PLANTED)
def test_parts_are_each_latency_and_shares_the_excess(cause: str | None) -> None:
    evidence = PLANTED[cause].evidence()
    parts = parts_of(evidence)
    latency = evidence.sent.done - evidence.sent.due
    assert np.allclose(np.sum(list(parts.values()), axis=0), latency, atol=0.01, rtol=0)
    found = rows(parts)
    slow = np.sort(latency)[-round(len(latency) / 100) :].mean()
    assert sum(row.tail_ms for row in found) == pytest.approx(slow / 1e6)
    assert sum(row.share for row in found) == pytest.approx(1.0)


def test_parts_have_the_size_that_was_planted() -> None:
    late = {row.cause: row for row in rows(parts_of(PLANTED["schedule"].evidence()))}
    assert late["schedule"].tail_ms == pytest.approx(60, rel=0.02)
    fill = {row.cause: row for row in rows(parts_of(PLANTED["batch_fill"].evidence()))}
    assert fill["batch_fill"].tail_ms == pytest.approx(20, rel=0.05)
    way = {row.cause: row for row in rows(parts_of(PLANTED["network"].evidence()))}
    assert way["network"].median_ms == pytest.approx(30, rel=0.01)


def test_pauses_are_counted_with_their_length_and_period() -> None:
    found = _explained(PLANTED["pause"])
    pauses = found["pauses"]
    assert pauses is not None
    assert pauses["count"] == pytest.approx(19, abs=1)
    assert pauses["median_ms"] == pytest.approx(200, abs=11)
    assert pauses["period_s"] == pytest.approx(3, abs=0.05)


def test_a_server_without_a_core_does_not_pause() -> None:
    evidence = PLANTED["pause"].evidence()
    machine = replace(evidence.machine, stopped=np.zeros_like(evidence.machine.at))
    free = len(pauses(machine, evidence.batches, evidence.served)[0])
    starved = replace(machine, waited=machine.at - machine.at[0])
    assert free > 0
    assert len(pauses(starved, evidence.batches, evidence.served)[0]) == 0


def test_queue_delay_is_not_a_pause() -> None:
    found = _explained(PLANTED["batch_fill"])
    assert found["pauses"] is not None
    assert found["pauses"]["count"] == 0


def test_wait_that_nobody_explains_is_not_distributed() -> None:
    evidence = Synthetic(rate=10).evidence()
    served, sent = evidence.served, evidence.sent
    slow = np.arange(len(sent.due)) % 50 == 0
    # The scheduler leaves them in the queue while its instance is idle, and no queue delay is configured.
    held = (slow * 40_000_000).astype(np.int64)
    moved = type(served)(
        served.queued, *(getattr(served, name) + held for name in ("started", "input_end", "output_start", "ended"))
    )
    later = type(sent)(sent.number, sent.due, sent.begun, sent.sent, sent.done + held, sent.good)
    found = explanation(later, moved, evidence.machine, evidence.setup)
    assert found is not None
    parts = {part["cause"]: part["tail_ms"] for part in found["parts"]}
    assert parts["unexplained"] == pytest.approx(40, abs=8)
    assert "not explained" in found["sentence"]


def test_without_a_trace_tells_what_the_load_generator_knows_and_no_more() -> None:
    evidence = PLANTED["instance"].evidence()
    found = explanation(evidence.sent, None, evidence.machine, evidence.setup, "the server has no trace")
    assert found is not None
    assert not found["traced"]
    assert [part["cause"] for part in found["parts"]] == ["schedule", "connection", "service"]
    assert found["cause"] is None
    assert found["note"] == "the server has no trace"
    late = PLANTED["schedule"].evidence()
    told = explanation(late.sent, None, late.machine, late.setup)
    assert told is not None
    assert told["cause"] == "schedule"
