"""LoadGen's verdict among ours: its bound is named, and other work on the machine is not blamed on the load."""

import pytest

from servemark.documents.commands.measure import MlperfScenario
from servemark.results.schema.mlperf import Plan
from servemark.runs.mlperf import loadgen_constraint

LOG = {
    "result_validity": "INVALID",
    "result_99.00_percentile_latency_ns": 86_000_000,
    "result_invalid_reason": "Reduce target QPS to improve latency",
}


def plan(scenario: MlperfScenario = MlperfScenario.SERVER) -> Plan:
    server = scenario is MlperfScenario.SERVER
    return Plan(
        scenario=scenario,
        expected_qps=300.0,
        expected_latency_ms=1.0,
        min_duration_s=20.0,
        min_queries=100,
        latency_ms=15.0 if server else None,
        percentile=99.0 if server else None,
        bound_from="ranking's own objective" if server else None,
        seed=0,
    )


def test_the_bound_stands_with_what_it_is_compared_with() -> None:
    found = loadgen_constraint(plan(), LOG, "", valid=False, busy=False)
    assert (found["value"], found["limit"], found["unit"]) == (86.0, 15.0, "ms at p99")
    assert found["remedy"] == (
        "the bound of 15 ms at p99 is ranking's own objective: lower --target-qps, or give a wider bound by --slo; "
        "LoadGen: Reduce target QPS to improve latency"
    )


def test_beside_other_work_nobody_is_told_to_ask_for_less() -> None:
    found = loadgen_constraint(plan(), LOG, "", valid=False, busy=True)
    assert "quiet machine" in found["remedy"]
    assert "QPS" not in found["remedy"]


def test_beyond_the_capacity_a_rate_is_named_also_beside_other_work() -> None:
    log = LOG | {"result_scheduled_samples_per_sec": 11_000.0, "result_completed_samples_per_sec": 1_012.0}
    for busy in (False, True):
        remedy = loadgen_constraint(plan(), log, "", valid=False, busy=busy)["remedy"]
        assert "lower --target-qps to 810 (1,012 of 11,000/s were completed)" in (remedy or "")


@pytest.mark.parametrize("scenario", [each for each in MlperfScenario if each is not MlperfScenario.SERVER])
def test_the_other_scenarios_have_no_bound(scenario: MlperfScenario) -> None:
    found = loadgen_constraint(plan(scenario), LOG, "", valid=False, busy=False)
    assert (found["value"], found["limit"], found["remedy"]) == (None, None, LOG["result_invalid_reason"])


def test_an_interrupted_run_says_so() -> None:
    assert loadgen_constraint(plan(), {}, "interrupted", valid=False, busy=True)["remedy"] == "interrupted"
