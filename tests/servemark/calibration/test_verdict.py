"""The verdict over the meter: right, wrong, or a machine that lets nobody tell."""

import pytest

from servemark.results.saved import Saved
from servemark.views.kinds.calibration import checks
from tests.support.calibrated import document
from tests.support.documents import validated


@pytest.mark.parametrize(
    ("error_ms", "other", "outcome", "code"),
    [(0.05, 0.01, "trusted", 0), (0.05, 0.5, "trusted", 0), (1.5, 0.01, "not trusted", 4), (1.5, 0.5, "undecided", 2)],
)
def test_outcomes(error_ms: float, other: float, outcome: str, code: int) -> None:
    found = validated(document(error_ms, other))
    assert (found["verdict"]["outcome"], found["verdict"]["exit_code"]) == (outcome, code)
    assert found["meters"][0]["trusted"] == (outcome == "trusted")
    [check] = checks(Saved("c", dict(found)))
    assert check.ok == {"trusted": True, "not trusted": False, "undecided": None}[outcome]


def test_each_generator_has_its_figures() -> None:
    ours, wrk = document()["meters"]
    assert ours["within_ms"] == pytest.approx(0.05)  # at p50 of the stall, whose truth is 0
    assert (ours["worst"], ours["failures_share"], ours["step_ms"]) == ("stall p50", 1, 0.01)
    assert ours["floor_ms"] == pytest.approx(5.05)
    assert wrk["within_ms"] == pytest.approx(1 - 0.01 * 5)
    assert (wrk["failures_share"], wrk["step_ms"], wrk["offset_p99_ms"]) == (3, 1, None)
    assert wrk["wrong"] == ["off by 0.95 ms + 1% at floor p50", "reported 3.00 times the failures"]
