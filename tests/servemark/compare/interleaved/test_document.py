"""Engines side by side: the arithmetic on made-up rounds."""

from typing import Any

import numpy as np
import pytest

from servemark.compare.interleaved.document import decided, rows
from servemark.compare.interleaved.turn import Turn
from servemark.search.refinement import HighestRate
from servemark.stats.unknown import explained
from tests.support.results import NO_METER, histogram_of, result_of
from tests.support.rounds import document_of, rounds_of, turn


def rows_of(turns: list[Turn], labels: list[str]) -> Any:
    """The rows, whose reasons the types do not list."""
    return explained(rows)(turns, labels)


def test_known_ratios_come_out_of_a_drifting_machine() -> None:
    first, slow, same = rows_of(rounds_of(a=1, b=2, c=1), ["a", "b", "c"])
    assert first["ratio"] == {
        "p50": None,
        "p99": None,
        "inferences_per_s": None,
        "max_rate": None,
        "reason": "the baseline: the others are compared with it",
    }
    assert slow["ratio"]["p50"]["value"] == pytest.approx(2, rel=0.01)
    assert slow["ratio"]["p50"]["ci95"] == pytest.approx([2, 2], rel=0.01)
    assert slow["ratio"]["inferences_per_s"]["value"] == pytest.approx(0.5)
    assert slow["ratio"]["inferences_per_s"]["significant"] is True
    assert same["ratio"]["p50"]["significant"] is False
    assert slow["variation"]["p50"] > 0.2


def test_percentiles_are_of_all_rounds_together_and_never_averaged() -> None:
    fast, slow = histogram_of(np.full(900, 10.0)), histogram_of(np.full(300, 50.0))
    turns = [Turn(n, "a", "d", result=result_of(h), latency=h) for n, h in enumerate((fast, slow), start=1)]
    [row] = explained(rows)(turns, ["a"])
    assert row["latency_ms"]["count"] == 1200
    assert row["latency_ms"]["p50"] == pytest.approx(10, rel=1e-3)
    assert row["latency_ms"]["p99"] == pytest.approx(50, rel=1e-3)


def test_a_percentile_needs_its_samples() -> None:
    [row, _] = rows_of(rounds_of(2, a=1, b=1), ["a", "b"])
    assert row["latency_ms"]["p99"] is None
    assert row["latency_ms"]["p99_reason"] == "needs 1,000 samples, has 800: --duration 14"
    assert row["latency_ms"]["p90"] > 0


def test_few_rounds_have_a_ratio_without_an_interval() -> None:
    _, row = rows_of(rounds_of(3, a=1, b=3), ["a", "b"])
    assert row["ratio"]["p50"]["value"] == pytest.approx(3, rel=0.01)
    assert (row["ratio"]["p50"]["ci95"], row["ratio"]["p50"]["significant"]) == (None, None)
    assert row["ratio"]["ci95_reason"] == "needs 5 rounds, has 3: raise --rounds"
    assert row["variation"]["reason"].startswith("needs 4 rounds")


def test_a_run_that_was_cut_short_is_listed_and_takes_no_part() -> None:
    turns = [*rounds_of(5, a=1, b=2), turn(6, "a", 10), turn(6, "b", 900, partial=True)]
    found = document_of(turns, ["a", "b"], "interrupted")
    assert (found["rounds_done"], len(found["turns"]), found["partial"]) == (5, 12, True)
    assert found["turns"][-1]["partial"] is True
    [_, row] = found["rows"]
    assert row["rounds"] == 5
    assert row["ratio"]["p50"]["value"] == pytest.approx(2, rel=0.01)


def test_energy_is_over_all_rounds_or_null_with_the_reason() -> None:
    metered = [turn(n, "a", 10, joules=joules) for n, joules in enumerate((1.0, 3.0), start=1)]
    assert explained(rows)(metered, ["a"])[0]["energy"] == {
        "joules_per_inference": 2.0,
        "ci95": None,
        "boundary": "cpu_package",
    }
    many = [turn(n, "a", 10, joules=2.0 + 0.1 * (n % 2)) for n in range(1, 7)]
    low, high = explained(rows)(many, ["a"])[0]["energy"]["ci95"] or (0.0, 0.0)
    assert 1.95 < low < 2.05 < high < 2.15
    [row] = explained(rows)([*metered, turn(3, "a", 10)], ["a"])
    assert row["energy"] == {"joules_per_inference": None, "reason": NO_METER}


def test_outputs_are_those_of_all_rounds() -> None:
    [row] = explained(rows)([turn(1, "a", 10, top1=1.0), turn(2, "a", 10, top1=0.5)], ["a"])
    found = row["output_agreement"]
    assert (found["checked"], found["top1_samples"], found["samples"], found["top1_agreement"]) == (100, 8, 16, 0.5)


def test_a_round_that_came_to_fewer_golden_samples_says_less() -> None:
    short = turn(1, "a", 10, top1=0.25)
    short.result["figures"]["outputs.samples"]["value"] = 4
    [row] = explained(rows)([short, turn(2, "a", 10, top1=0.5)], ["a"])
    assert (row["output_agreement"]["top1_samples"], row["output_agreement"]["samples"]) == (8, 16)


def test_a_round_without_answers_leaves_no_ratio() -> None:
    turns = [*rounds_of(5, a=1, b=2), turn(6, "a", 10), turn(6, "b", 20, rate=0.0)]
    _, row = rows_of(turns, ["a", "b"])
    assert row["ratio"]["inferences_per_s"] is None
    assert row["ratio"]["inferences_per_s_reason"]


def test_highest_rates_have_a_ratio_of_their_rounds_or_the_reason() -> None:
    starts = ([400.0, 410.0], [800.0, 820.0], [405.0, 400.0])
    [first, fast, same] = [HighestRate(None, None, "x", rounds) for rounds in starts]
    for rate in (first, fast, same):
        rate.rounds.append(rate.rounds[0] * 1.01)
    found = document_of(rounds_of(5, a=1, b=1, c=1), list("abc"), highest={"a": first, "b": fast, "c": same})
    [a, b, c] = found["rows"]
    assert (a["max_rate"]["rate"], a["ratio"]["max_rate"]) == (pytest.approx(first.rate), None)
    assert b["ratio"]["max_rate"]["value"] == pytest.approx(2, rel=0.1)
    assert (b["ratio"]["max_rate"]["significant"], c["ratio"]["max_rate"]["significant"]) == (True, False)


def test_rounds_until_decided_have_intervals_that_hold_at_each_look() -> None:
    turns = [
        turn(number, label, 10 * ratio * noise)
        for number, noise in enumerate([1.02, 0.99, 1.01, 0.98, 1.0], start=1)
        for label, ratio in {"ort": 1.0, "same": noise, "slow": 2.0 * noise}.items()
    ]
    plain = document_of(turns, ["ort", "same", "slow"])
    found = document_of(turns, ["ort", "same", "slow"], until_decided={"decided": False, "saved_s": 0.0})
    for one, other in zip(plain["rows"][1:], found["rows"][1:], strict=True):
        (low, high), (wide_low, wide_high) = one["ratio"]["p50"]["ci95"], other["ratio"]["p50"]["ci95"]
        assert wide_low < low < high < wide_high
    assert found["rows"][2]["ratio"]["p50"]["significant"]
    assert not found["rows"][1]["ratio"]["p50"]["significant"]


@pytest.mark.parametrize(("count", "expected"), [(2, False), (5, True)])
def test_it_is_decided_when_each_is_told_apart_or_equal(count: int, expected: bool) -> None:
    turns = rounds_of(count, ort=1.0, slow=2.0)
    found = document_of(turns, ["ort", "slow"], until_decided={"decided": False, "saved_s": 0.0})
    assert decided(found) is expected


def test_requests_in_flight_follow_littles_law_under_an_open_loop() -> None:
    turns = [turn(n, label, p50, rate=50.0) for n in range(1, 6) for label, p50 in (("a", 10), ("b", 200))]
    for each in turns:
        each.result["figures"]["throughput.scheduled"]["value"] = 50.0
    found = document_of(turns, ["a", "b"])
    [a, b] = found["rows"]
    assert a["in_flight"]["mean"] == pytest.approx(0.5, rel=0.02)
    assert b["in_flight"]["mean"] == pytest.approx(10, rel=0.02)
    assert b["in_flight"]["ci95"][0] < b["in_flight"]["mean"] < b["in_flight"]["ci95"][1]


def test_a_closed_loop_sets_the_requests_in_flight_itself() -> None:
    found = document_of(rounds_of(a=1, b=2), ["a", "b"])
    assert [row["in_flight"] for row in found["rows"]] == [None, None]
    assert [row["in_flight_reason"] for row in found["rows"]] == ["a closed loop: the load itself sets it"] * 2


def test_a_server_that_ran_already_has_a_configuration_of_its_own() -> None:
    [row, _] = document_of(rounds_of(1, a=1, b=1), ["a", "b"], configurations={})["rows"]
    assert row["configuration"] is None
    assert row["configuration_reason"] == "a server that was already running has its own"
