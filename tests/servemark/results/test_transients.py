"""Recovery and cold start: some seconds say how the latency is, three calm ones that it is so again."""

import math
from typing import Any

import numpy as np
import pytest

from servemark.errors import OptionError
from servemark.results.objectives import COLD_START, RECOVERY, Seen, Slo, judge_objective
from servemark.results.schema.details import WindowFigures
from servemark.results.transients import cold_start, recovery, slowest, steady_after


def seconds(*p50_ms: float | None, errors: dict[int, int] | None = None) -> list[WindowFigures]:
    """Windows of a second each, whose p99 is not known."""
    return [
        {
            "start_s": float(number),
            "requests_per_s": 50.0,
            "count": 7 if value is None else 50,
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
        (seconds(None, None, None, None, None, None, 5.0), 6.0, 0.0, "a second before it has 7 good requests"),
    ],
)
def test_what_cannot_be_told_has_its_reason(
    windows: list[WindowFigures], at_s: float, since_s: float, why: str
) -> None:
    found: Any = recovery(windows, at_s, since_s)
    assert (found["recovery_s"], found["recovered"]) == (None, None)
    assert why in found["recovery_s_reason"]
    assert slowest([found]) is None


@pytest.mark.parametrize(("figure", "name"), [(RECOVERY, "recovery"), (COLD_START, "cold-start")])
@pytest.mark.parametrize(
    ("value", "status", "shown"),
    [(4.0, "met", 4.0), (6.0, "missed", 6.0), (math.inf, "missed", None), (None, "undecided", None)],
)
def test_an_objective_on_either(figure: str, name: str, value: float | None, status: str, shown: float | None) -> None:
    slo = Slo.parse(f"{name}:5s")
    assert (slo.figure, slo.limit, slo.unit, str(slo)) == (figure, 5.0, "s", f"{name}:5")
    found = judge_objective(Seen(slo, value), lambda _times: "", "")
    assert (found["status"], found["value"], bool(found["remedy"])) == (status, shown, True)
    with pytest.raises(OptionError):
        Slo.parse(f"{name}:0")


def started(windows: list[WindowFigures], load_s: float | None = 2.0) -> Any:
    """The cold start that these seconds followed."""
    return cold_start(windows, load_s=load_s, waited_s=load_s and 0.5, first_answer_ms=80.0)


def test_a_cold_start_ends_with_three_seconds_like_the_second_half() -> None:
    found = started(seconds(80.0, 5.0, 40.0, 5.2, 5.4, 5.0, *CALM))
    assert (found["percentile"], found["first_second_ms"], found["last_ms"]) == ("p90", 160.0, 10.0)
    assert (found["steady_after_s"], found["cold_start_s"], found["steady"]) == (3.0, 5.0, True)
    assert steady_after(found, 9.0, 12.0) == 5.0


def test_a_server_may_be_warm_at_once() -> None:
    found = started(seconds(*CALM, *CALM))
    assert (found["steady_after_s"], found["cold_start_s"]) == (0.0, 2.0)


def test_seconds_with_failures_or_without_answers_are_not_steady() -> None:
    found = started(seconds(None, *CALM, *CALM, errors={3: 1}))
    assert (found["steady_after_s"], found["first_second_ms"]) == (4.0, None)
    assert "that second" in found["first_second_ms_reason"]


@pytest.mark.parametrize(
    ("windows", "why"),
    [
        (seconds(80.0, 70.0, 60.0, 50.0, 40.0, 30.0, *CALM), "no 3 seconds in a row"),
        (seconds(*[5.0 * 1.3**n for n in range(16)]), "p90 still went up after 0 s, from 10 to "),
        (seconds(*[100.0 * 0.9**n for n in range(20)]), "no 3 seconds in a row"),
    ],
)
def test_a_latency_that_still_changes_is_not_steady(windows: list[WindowFigures], why: str) -> None:
    found = started(windows)
    assert (found["steady_after_s"], found["cold_start_s"], found["steady"]) == (None, None, False)
    assert why in found["steady_after_s_reason"]
    limit_s = 2.0 + len(windows) / 2 - 1
    assert steady_after(found, limit_s - 0.1, len(windows)) == math.inf
    assert steady_after(found, limit_s, len(windows)) is None  # it may have been steady before that


def test_a_p99_that_scatters_is_steady() -> None:
    """Made-up runs of 20 s whose first second is slow, and whose others lie within a factor of 4 of each other."""
    drawn = np.random.default_rng(1).lognormal(math.log(5), 0.35, (1000, 20))
    drawn[:, 0] *= 3
    after_s = [started(seconds(*values))["steady_after_s"] for values in drawn.tolist()]
    assert after_s.count(None) < 10
    assert after_s.count(1.0) > 650
    assert after_s.count(0.0) < 150  # a slow second of the second half looks as the first does


@pytest.mark.parametrize(
    ("windows", "why"),
    [
        ([], "fewer than 12 whole seconds"),
        (seconds(*[5.0] * 11), "fewer than 12 whole seconds"),
        (seconds(*CALM, *CALM, 5.0, None, 5.0), "the second half has 7 good requests, and 20 are needed"),
    ],
)
def test_a_cold_start_of_which_too_little_is_known_has_its_reason(windows: list[WindowFigures], why: str) -> None:
    found = started(windows)
    assert (found["load_s"], found["first_answer_ms"], found["steady"]) == (2.0, 80.0, None)
    for key in ("percentile", "first_second_ms", "last_ms", "steady_after_s", "steady"):
        assert why in found[f"{key}_reason"]
    assert steady_after(found, 1.0, 10.0) is None


def test_the_start_of_a_server_that_is_not_ours_is_not_known() -> None:
    found = started(seconds(*CALM, *CALM), load_s=None)
    assert (found["steady_after_s"], found["cold_start_s"], found["waited_s"]) == (0.0, None, None)
    assert steady_after(found, 5.0, 12.0) is None
    assert steady_after(None, 5.0, 12.0) is None
