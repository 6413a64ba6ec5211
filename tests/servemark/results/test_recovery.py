"""Recovery from a command: the seconds before it say how it was, three calm ones that it is over."""

import math
from typing import Any

import pytest

from servemark.errors import OptionError
from servemark.results.objectives import Figure, Seen, Slo, judge_objective
from servemark.results.recovery import recovery, slowest
from servemark.results.schema.metrics import WindowFigures


def seconds(*p50_ms: float | None, errors: dict[int, int] | None = None) -> list[WindowFigures]:
    """Windows of a second each, whose p99 is not known."""
    return [
        {
            "start_s": float(number),
            "requests_per_s": 50.0,
            "errors": (errors or {}).get(number, 0),
            "p50_ms": value,
            "p90_ms": None if value is None else 2 * value,
            "p99_ms": None,
        }
        for number, value in enumerate(p50_ms)
    ]


CALM = [5.0] * 6


def test_the_time_until_three_seconds_are_as_before() -> None:
    found = recovery(seconds(*CALM, 80.0, 40.0, 5.2, 90.0, 5.0, 5.4, 5.0), 6.0, 0.0)
    assert (found["percentile"], found["before_ms"], found["worst_ms"]) == ("p90", 10.0, 180.0)
    assert (found["recovery_s"], found["recovered"], found["errors"]) == (4.0, True, 0)


def test_failures_are_not_calm() -> None:
    found = recovery(seconds(*CALM, *CALM, errors={6: 3, 7: 1}), 6.2, 0.0)
    assert found["recovery_s"] == pytest.approx(1.8)
    assert found["errors"] == 4


def test_nothing_happened() -> None:
    found = recovery(seconds(*CALM, *CALM), 6.4, 0.0)
    assert (found["recovery_s"], found["worst_ms"], found["errors"]) == (0.0, 10.0, 0)


def test_a_run_may_end_before() -> None:
    found: Any = recovery(seconds(*CALM, 80.0, 80.0, None, 5.0, 5.0), 6.0, 0.0)
    assert (found["recovery_s"], found["recovered"]) == (None, False)
    assert "3 seconds in a row" in found["recovery_s_reason"]
    assert slowest([found]) == math.inf


@pytest.mark.parametrize(
    ("windows", "at_s", "since_s", "why"),
    [
        (seconds(*CALM, *CALM), 3.0, 0.0, "before the first 5 seconds"),
        (seconds(*CALM, *CALM), 8.0, 6.0, "so soon after"),
        (seconds(None, None, None, None, None, None, 5.0), 6.0, 0.0, "too few requests"),
    ],
)
def test_what_cannot_be_told_has_its_reason(
    windows: list[WindowFigures], at_s: float, since_s: float, why: str
) -> None:
    found: Any = recovery(windows, at_s, since_s)
    assert (found["recovery_s"], found["recovered"]) == (None, None)
    assert why in found["recovery_s_reason"]
    assert slowest([found]) is None


@pytest.mark.parametrize(
    ("value", "status", "shown"), [(4.0, "met", 4.0), (6.0, "missed", 6.0), (math.inf, "missed", None)]
)
def test_an_objective_on_the_recovery(value: float, status: str, shown: float | None) -> None:
    slo = Slo.parse("recovery:5s")
    assert (slo.figure, slo.limit, slo.unit, str(slo)) == (Figure.RECOVERY, 5.0, "s", "recovery:5")
    found = judge_objective(Seen(slo, value), lambda _times: "", "")
    assert (found["status"], found["value"]) == (status, shown)
    assert judge_objective(Seen(slo, None), lambda _times: "", "")["status"] == "undecided"
    with pytest.raises(OptionError):
        Slo.parse("recovery:0")
