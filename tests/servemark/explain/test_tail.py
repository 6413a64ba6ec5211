"""Requests of known causes: each one's part of the latency is what was put in, and its name is in the sentence."""

from dataclasses import replace

import numpy as np
import pytest

from servemark.explain.document import FEWEST, NEVER_FILLED, explanation, setup_of
from servemark.explain.naming import fixes_of
from servemark.explain.queue import Setup
from servemark.explain.tail import CAUSES, parts_of, pauses_of, rows
from servemark.explain.timeline import Machine, Sent, Served
from servemark.results.schema.explanation import ExplainedPart
from tests.support.planted_runs import MS, PLANTED, Synthetic, explained, planted

SEEDS = 3
PAUSED = Synthetic(rate=40, seconds=60, pauses=tuple((at, 0.2) for at in range(3, 60, 3)))
DELAYED = Synthetic(rate=20, setup=Setup(1, 32, 20 * MS))
FULL = Synthetic(rate=60, setup=Setup(1, 64, 2_000 * MS, (8,)))


def _rows(case: Synthetic) -> dict[str, ExplainedPart]:
    return {row["cause"]: row for row in rows(parts_of(case.evidence()))}


def test_names_95_percent_of_the_causes_that_were_planted() -> None:
    wrong = []
    for cause, right in PLANTED.items():
        for seed in range(SEEDS):
            found = planted(cause, seed).explained()
            assert (CAUSES[found["cause"]] if found["cause"] else "Nothing stands out") in found["sentence"]
            if found["cause"] != right:
                wrong.append(f"{cause} {seed}: {found['sentence']}")
    assert len(wrong) <= 0.05 * len(PLANTED) * SEEDS, "\n".join(wrong)


@pytest.mark.parametrize("cause", PLANTED)
def test_parts_are_each_latency_and_shares_the_excess(cause: str) -> None:
    evidence = planted(cause, 1).evidence()
    parts = parts_of(evidence)
    latency = evidence.sent.done - evidence.sent.due
    assert np.allclose(np.sum(list(parts.values()), axis=0), latency, atol=0.01, rtol=0)
    found = rows(parts)
    slow = np.sort(latency)[-max(5, round(len(latency) / 100)) :].mean()
    assert sum(row["tail_ms"] for row in found) == pytest.approx(slow / 1e6)
    assert sum(row["share"] for row in found) == pytest.approx(1.0)


def test_a_large_answer_is_told_from_a_slow_network() -> None:
    large = Setup(answer_surplus=1 << 20)
    found = _rows(Synthetic(rate=20, way_ms=15, answer_ms=10, setup=large))
    assert found["network"]["median_ms"] == pytest.approx(30, rel=0.05)
    assert found["output"]["median_ms"] == pytest.approx(10.1, rel=0.05)
    small = _rows(Synthetic(rate=20, way_ms=15, answer_ms=10))
    assert small["network"]["median_ms"] == pytest.approx(40, rel=0.05)


def test_an_answer_is_larger_than_its_request_by_what_the_configuration_says() -> None:
    config = {
        "max_batch_size": 8,
        "input": [{"name": "x", "data_type": "TYPE_UINT8", "dims": ["3"]}],
        "output": [
            {"name": "y", "data_type": "TYPE_FP32", "dims": ["10", "2"]},
            {"name": "text", "data_type": "TYPE_STRING", "dims": ["-1"]},
        ],
    }
    assert setup_of(config, 2).answer_surplus == 2 * (80 - 3)
    assert setup_of({**config, "dynamic_batching": {}}, 1).answer_surplus == 80 - 3
    assert setup_of(None, 1).answer_surplus == 0


def test_parts_have_the_size_that_was_planted() -> None:
    assert _rows(Synthetic(rate=20, connect_ms=60))["connection"]["tail_ms"] == pytest.approx(60, rel=0.02)
    # Those that join a batch wait for less.
    assert _rows(DELAYED)["batch_fill"]["median_ms"] == pytest.approx(19, rel=0.06)
    assert _rows(Synthetic(rate=20, way_ms=15))["network"]["median_ms"] == pytest.approx(30, rel=0.02)
    assert _rows(Synthetic(rate=20))["model"]["median_ms"] == pytest.approx(8, rel=0.03)


def test_a_batch_that_is_always_full_is_too_large_and_not_delayed() -> None:
    found = _rows(FULL)
    assert found["batch_fill"]["tail_ms"] == pytest.approx(0, abs=0.1)
    # The oldest waits for 7 more; then 8 are computed in 4.5 times the time of one.
    assert found["batch_size"]["tail_ms"] > 7 / 60 * 1000
    told = FULL.explained()
    assert told["cause"] == "batch_size"
    assert "max_requests" in told["fixes"][0]["settings"]
    assert told["fixes"][0]["p99_ms"] < 0.5 * told["p99_ms"]


def test_what_a_change_of_the_batch_size_costs_is_said() -> None:
    """As ONNX Runtime's choice of convolutions on a GPU does."""
    batched = Setup(1, 8)
    found = Synthetic(rate=30, service_ms=5, change_ms=600, seconds=200, setup=batched).explained()
    assert found["queueing"]["size_change_ms"] == pytest.approx(600, rel=0.05)
    assert "(each change of the batch size costs 60" in found["sentence"]
    assert found["cause"] == "size_change"
    assert "batches of few sizes" in found["fixes"][0]["words"]
    free = Synthetic(rate=150, service_ms=5, setup=batched).explained()
    assert "change of the batch size" not in free["sentence"]
    assert abs(free["queueing"]["size_change_ms"] or 0) < 0.5


def test_a_cpu_that_waits_for_a_changed_batch_is_not_paused() -> None:
    """A GPU's search for kernels leaves the server's process idle."""
    found = Synthetic(rate=30, service_ms=5, change_ms=600, seconds=200, setup=Setup(1, 8)).evidence()
    idle = replace(found.machine, server_cpu=np.zeros_like(found.machine.server_cpu))
    told = explained(replace(found, machine=idle))
    assert (told["cause"], told["pauses"]["count"]) == ("size_change", 0)


def test_requests_that_the_end_of_the_load_left_waiting_are_no_cause() -> None:
    evidence = replace(FULL, rate=15, seconds=12).evidence()
    wait = evidence.served.started - evidence.served.queued
    assert wait.max() >= FULL.setup.delay_ns  # the last ones, for nobody
    told = explained(evidence)
    assert told["cause"] == "batch_size"
    assert told["requests"] < len(wait)
    assert NEVER_FILLED in told["note"]
    assert explained(evidence, told["note"])["note"] == told["note"]  # once, if a saved run is explained again
    assert told["parts"][list(CAUSES).index("batch_fill")]["tail_ms"] == pytest.approx(0, abs=1)


def test_what_is_left_too_few_without_the_end_of_the_load_is_not_explained() -> None:
    count = 2 * FEWEST
    at = np.arange(count, dtype=np.int64)
    last = np.int64(count + 10_000 * MS)
    served = Served(at, *(np.full(count, last + step) for step in range(4)))
    sent = Sent(at, at, at, at, np.full(count, last + 9), np.ones(count, bool))
    assert explanation(sent, served, Machine.none(), Setup(1, 8 * count, 5_000 * MS)) is None


def test_advice_counts_a_batch_in_samples_as_triton_does() -> None:
    evidence = FULL.evidence()
    for fix in fixes_of("batch_size", replace(evidence, setup=replace(evidence.setup, samples=8)), parts_of(evidence)):
        assert f"max_batch_size {8 * fix['settings']['max_requests']}" in fix["words"]
    assert setup_of({"max_batch_size": 64, "dynamic_batching": {}}, 8).samples == 8


def test_waits_behind_bursts_of_a_load_generator_that_was_late_are_its_own() -> None:
    stops = tuple((at / 2, 0.1) for at in range(1, 120))
    late = _rows(Synthetic(rate=40, seconds=60, client_stops=stops))
    assert late["schedule"]["tail_ms"] > 100
    assert late["instance"]["tail_ms"] < 10


def test_few_late_requests_happen_on_every_machine_and_are_not_named() -> None:
    stops = tuple((float(at), 0.08) for at in range(5, 60, 10))
    run = Synthetic(rate=40, seconds=60, client_stops=stops)
    assert _rows(run)["schedule"]["share"] > 0.5
    assert run.explained()["cause"] is None


def test_requests_that_wait_for_the_limit_in_flight_are_not_sent_late_by_the_load_generator() -> None:
    count, limit, service = 2_000, 4, 10 * MS
    due = np.arange(count) * service // 2  # twice what the server answers
    done = (np.arange(count) + 1) * service
    begun = np.maximum(due, np.concatenate([np.zeros(limit, np.int64), done[:-limit]]))
    sent = Sent(np.arange(count), due, begun, begun + 1, done, np.ones(count, bool))
    found, unlimited = (explanation(sent, None, Machine.none(), each) for each in (Setup(in_flight=limit), Setup()))
    assert found
    assert unlimited
    assert found["cause"] == "in_flight"
    parts = {part["cause"]: part["tail_ms"] for part in found["parts"]}
    assert parts["schedule"] == pytest.approx(0, abs=0.01)
    assert parts["service"] == pytest.approx(limit * 10, abs=0.01)
    [late] = [part for part in unlimited["parts"] if part["cause"] == "schedule"]
    assert late["tail_ms"] == pytest.approx(parts["in_flight"])


def test_waits_behind_the_executions_of_a_cold_model_are_its_own() -> None:
    found = _rows(Synthetic(rate=40, seconds=60, cold_s=2.0))
    assert found["cold"]["tail_ms"] > 10 * found["instance"]["tail_ms"]


def test_an_instance_more_is_not_advised_where_it_shares_the_cores_that_are_used() -> None:
    busy = Synthetic(rate=105)
    evidence = busy.evidence()
    found = explained(replace(evidence, machine=replace(evidence.machine, cores=1)))
    assert found["cause"] == "instance"
    assert found["fixes"][0]["settings"] == {}
    assert busy.explained()["fixes"][0]["settings"] == {"instances": 2}


def test_pauses_are_counted_with_their_length_and_period() -> None:
    pauses = PAUSED.explained()["pauses"]
    assert pauses["count"] == pytest.approx(19, abs=1)
    assert pauses["median_ms"] == pytest.approx(200, abs=11)
    assert pauses["period_s"] == pytest.approx(3, abs=0.05)


def test_a_server_without_a_core_does_not_pause() -> None:
    evidence = PAUSED.evidence()
    machine = replace(evidence.machine, stopped=np.zeros_like(evidence.machine.at))
    free = len(pauses_of(machine, evidence.batches, evidence.served)[0])
    starved = replace(machine, waited=machine.at - machine.at[0])
    assert free > 0
    assert len(pauses_of(starved, evidence.batches, evidence.served)[0]) == 0


def test_queue_delay_is_not_a_pause() -> None:
    assert DELAYED.explained()["pauses"]["count"] == 0


def test_wait_that_nobody_explains_is_not_distributed() -> None:
    evidence = Synthetic(rate=10).evidence()
    served, sent = evidence.served, evidence.sent
    slow = np.arange(len(sent.due)) % 50 == 0
    # The scheduler leaves them in the queue while its instance is idle, and no queue delay is configured.
    held = (slow * 40_000_000).astype(np.int64)
    moved = {name: getattr(served, name) + held for name in ("started", "input_end", "output_start", "ended")}
    late = replace(evidence, served=replace(served, **moved), sent=replace(sent, done=sent.done + held))
    found = explained(late)
    parts = {part["cause"]: part["tail_ms"] for part in found["parts"]}
    assert parts["unexplained"] == pytest.approx(40, abs=8)
    assert "not explained" in found["sentence"]


def test_without_a_trace_tells_what_the_load_generator_knows_and_no_more() -> None:
    found = explained(Synthetic(rate=105).evidence(), "the server has no trace", traced=False)
    assert not found["traced"]
    assert [part["cause"] for part in found["parts"]] == ["in_flight", "schedule", "connection", "service"]
    assert found["cause"] is None
    assert found["note"] == "the server has no trace"
    late = Synthetic(rate=20, client_stops=tuple((at / 2, 0.1) for at in range(1, 60)))
    assert explained(late.evidence(), traced=False)["cause"] == "schedule"
