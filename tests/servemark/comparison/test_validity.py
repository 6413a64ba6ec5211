"""The rounds of a comparison: which of them count, how long they have to be, and the rates found again in rounds."""

from typing import Any

import pytest

from servemark.comparison.validity import exit_code, requests_needed, round_length_s, search_length_s, unmet, unsteady
from servemark.errors import ExitCode
from tests.support.results import Result, histogram_of, latencies, result_of
from tests.support.rounds import document_of, shown, turn

NOISE = [1.0, 0.7, 1.2, 0.8, 1.1, 0.6, 1.15, 0.9]
RISING = [0.5, 0.6, 0.7, 0.9, 1.0, 1.1, 1.3, 1.4]


def unsteady_run(windows: list[float] = NOISE, count: int = 400, **changes: Any) -> Result:
    """A closed loop that is INVALID for `steady_state`."""
    return result_of(histogram_of(latencies(10, count)), windows=windows, **{"failed": ("steady_state",), **changes})


def test_an_unsteady_run_without_a_trend_counts_as_a_round() -> None:
    run = unsteady_run()
    assert run["verdict"]["valid"] is False
    assert unmet(run) == []
    assert unsteady(run)
    assert exit_code(run) is ExitCode.VALID
    assert not unsteady(unsteady_run(failed=()))


@pytest.mark.parametrize(
    "run",
    [
        unsteady_run(RISING),
        unsteady_run(RISING[::-1]),
        unsteady_run(NOISE[:5]),
        unsteady_run(count=59),
        unsteady_run([*NOISE[:6], 0.0, 1.0]),
        unsteady_run(scenario={"mode": "open"}),
    ],
    ids=["it gets faster", "it gets slower", "too few windows", "too few requests", "a stall", "open loop"],
)
def test_an_unsteady_run_that_does_not_count(run: Result) -> None:
    assert unmet(run) == ["steady_state"]
    assert exit_code(run) is ExitCode.INVALID


def test_whatever_else_failed_still_does() -> None:
    assert unmet(unsteady_run(failed=("error_share", "steady_state"))) == ["error_share"]
    both = unsteady_run(failed=("steady_state",))
    both["verdict"]["objective"] = "missed"
    assert unmet(both) == []
    assert exit_code(both) is ExitCode.SLO_MISSED
    assert exit_code(unsteady_run(failed=("error_share",), objective="missed")) is ExitCode.INVALID


def test_a_comparison_counts_unsteady_rounds_and_says_so() -> None:
    failed = ("steady_state",)
    turns = [turn(n, label, 10, windows=NOISE, failed=failed) for n in range(1, 6) for label in "ab"]
    turns[0] = turn(1, "a", 10, windows=RISING, failed=failed)
    found = document_of(turns, ["a", "b"])
    [a, b] = found["rows"]
    assert (a["verdict"]["valid_rounds"], a["verdict"]["unsteady_rounds"]) == (4, 4)
    assert (b["verdict"]["valid"], b["verdict"]["unsteady_rounds"]) == (True, 5)
    assert [(t["valid"], t["unsteady"]) for t in found["turns"][:2]] == [(False, False), (True, True)]
    text = shown(found)
    assert "a: not every round is VALID (steady_state in 1 of 5)" in text
    assert "unsteady rounds without a trend count; the intervals include their noise: a 4 of 5, b 5 of 5" in text


def test_a_drift_over_the_rounds_is_noted() -> None:
    drifting = [turn(n, "a", 10 / (1 + 0.1 * n)) for n in range(1, 6)]
    still = [turn(n, "b", 10 * share) for n, share in enumerate((1.0, 1.2, 0.9, 1.1, 1.0), start=1)]
    found = document_of([*drifting, *still], ["a", "b"])
    assert found["rows"][0]["drift"] == pytest.approx(1.5 / 1.1 - 1)
    assert found["rows"][1]["drift"] is None
    assert "from round to round (a by +36%): the engine or the machine was still changing" in shown(found)
    both = [turn(n, label, 10 / (1 + 0.1 * n)) for n in range(1, 6) for label in "ab"]
    assert "the machine was still changing" in shown(document_of(both, ["a", "b"]))


def test_a_round_is_as_long_as_its_verdict_needs() -> None:
    assert requests_needed(closed=True, percentile=None) == 60
    assert requests_needed(closed=False, percentile=None) == 200
    assert requests_needed(closed=True, percentile=99) == 1000
    assert [round_length_s(60, rate) for rate in (1000.0, 9.4, 5.0, 0.1)] == [8, 8, 15, 120]
    # 1000 requests for p99, with what a Poisson run may lack, at half of what was seen
    assert search_length_s(99, 1000) == 8
    assert search_length_s(99, 50) == 46
    assert search_length_s(90, 20) == 20  # 140 requests would do for p90, and 200 give ten windows a p50 each
    assert search_length_s(99, 1) == 120
