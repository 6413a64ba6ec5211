"""The runs of a comparison's rounds: which of them count, and what is noted of them."""

from typing import Any

import pytest

from servemark.compare.interleaved.turn import disturbed, exit_code, unmet, unsteady
from servemark.errors import ExitCode
from tests.support.results import Result, histogram_of, latencies, result_of
from tests.support.rounds import document_of, shown, turn

NOISE = [1.0, 0.7, 1.2, 0.8, 1.1, 0.6, 1.15, 0.9]
RISING = [0.5, 0.6, 0.7, 0.9, 1.0, 1.1, 1.3, 1.4]


def run(*failed: str, windows: list[float] = NOISE, **changes: Any) -> Result:
    return result_of(histogram_of(latencies(10, 400)), windows=windows, failed=failed, **changes)


def test_windows_that_scatter_are_said_to_and_count() -> None:
    assert unsteady(run())
    assert unmet(run()) == []
    assert not unsteady(run(windows=[1.0, 1.05, 1.02]))
    assert not unsteady(run("steady_state", windows=RISING))
    assert unmet(run("steady_state", windows=RISING)) == ["steady_state"]


def test_a_round_beside_other_work_counts_and_is_noted() -> None:
    busy = run("other_load")
    assert (unmet(busy), disturbed(busy), exit_code(busy)) == ([], True, ExitCode.VALID)
    assert not disturbed(run("steady_state"))


def test_whatever_else_failed_still_does() -> None:
    assert unmet(run("error_rate", "other_load")) == ["error_rate"]
    assert exit_code(run("other_load", objective="missed")) is ExitCode.SLO_MISSED
    assert exit_code(run("error_rate", objective="missed")) is ExitCode.INVALID


def test_a_comparison_says_whose_rounds_scattered_and_who_suffered_from_other_work() -> None:
    turns = [turn(n, label, 10, windows=NOISE) for n in range(1, 6) for label in "ab"]
    turns[0] = turn(1, "a", 10, windows=RISING, failed=("steady_state",))
    turns[3] = turn(2, "b", 10, windows=NOISE, failed=("other_load",))
    turns[3].result["figures"]["cpu.other_share"] = {"value": 0.31, "unit": "share"}
    found = document_of(turns, ["a", "b"])
    [a, b] = found["rows"]
    assert (a["verdict"]["valid_rounds"], a["verdict"]["unsteady_rounds"]) == (4, 4)
    assert (b["verdict"]["valid"], b["verdict"]["unsteady_rounds"], b["verdict"]["disturbed_rounds"]) == (True, 5, 1)
    assert [(t["valid"], t["unsteady"]) for t in found["turns"][:2]] == [(False, False), (True, True)]
    text = shown(found)
    assert "a: 4 of 5 rounds VALID; steady_state in 1" in text
    assert "rounds whose windows scattered count; the intervals include their noise: a 4 of 5, b 5 of 5" in text
    assert "other work ran beside these rounds: b 1 of 5 (up to 31% of the cores)" in text


def test_rounds_of_one_engine_that_lie_far_apart_are_noted() -> None:
    """As on an H200: 50 inferences/s in four rounds and 972 in one, so that most requests are of the fast round."""
    torn = [turn(n, "a", 1 if n == 2 else 20) for n in range(1, 6)]
    alike = [turn(n, "b", 10) for n in range(1, 6)]
    found = document_of([*torn, *alike], ["a", "b"])
    assert found["rows"][0]["inferences_per_s"]["ci95"][0] == 0.0
    text = shown(found)
    [row] = [line for line in text.splitlines() if "lay far apart" in line]
    assert row.startswith("rounds of one engine lay far apart (a ")
    assert " b " not in row.partition(":")[0]


def test_a_drift_over_the_rounds_is_noted() -> None:
    drifting = [turn(n, "a", 10 / (1 + 0.1 * n)) for n in range(1, 6)]
    still = [turn(n, "b", 10 * share) for n, share in enumerate((1.0, 1.2, 0.9, 1.1, 1.0), start=1)]
    found = document_of([*drifting, *still], ["a", "b"])
    assert found["rows"][0]["drift"] == pytest.approx(1.5 / 1.1 - 1)
    assert found["rows"][1]["drift"] is None
    assert "from round to round (a by +36%): the engine or the machine was still changing" in shown(found)
    both = [turn(n, label, 10 / (1 + 0.1 * n)) for n in range(1, 6) for label in "ab"]
    assert "the machine was still changing" in shown(document_of(both, ["a", "b"]))
