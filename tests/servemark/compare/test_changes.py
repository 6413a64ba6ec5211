"""Changes: seldom seen in noise however often one looks, and found where they are."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from servemark.compare.changes import MIN_RESULTS, RUN_LENGTH, alarms, detectable, look, results_needed, sure

Draw = Callable[[np.random.Generator, int], "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"]
NOISE: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(3, 0.05, n),
    "heavy tails": lambda rng, n: rng.standard_t(2, n) * 0.05,
    "skewed": lambda rng, n: rng.exponential(0.1, n),
    "steps of a coarse meter": lambda rng, n: np.round(rng.normal(0, 1, n)),
}
SERIES, LOOKS = 60, 60


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_noise_alone_gives_few_alarms_however_often_one_looks(noise: Draw) -> None:
    rng = np.random.default_rng(5)
    found = sum(len(alarms(noise(rng, LOOKS))[0]) for _ in range(SERIES))
    allowed = SERIES * LOOKS / RUN_LENGTH
    assert found <= allowed + 3 * allowed**0.5


@pytest.mark.parametrize("count", [3, 6])
def test_the_evidence_has_at_most_the_mean_of_the_number_of_looks(count: int) -> None:
    found = [look(np.array(order, float)).evidence for order in permutations(range(count))]
    assert np.mean(found) == pytest.approx(count - 1)  # one for each place of a change


@pytest.mark.parametrize("at", [4, 10, 15, 17])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_step_is_found_where_it_is(at: int, sign: int) -> None:
    values = np.random.default_rng(at).normal(3, 0.02, 22)
    values[at:] += 0.3 * sign
    [alarm] = alarms(values)[0]
    assert alarm.change == at
    assert alarm.evidence >= RUN_LENGTH


def test_a_rise_and_its_repair_are_two_changes() -> None:
    values = np.random.default_rng(1).normal(3, 0.02, 40)
    values[10:20] += 0.3
    assert [alarm.change for alarm in alarms(values)[0]] == [10, 20]


def test_three_late_results_show_a_change_after_twenty_before_and_one_does_not() -> None:
    values = np.random.default_rng(2).normal(3, 0.02, 23)
    values[20:] += 0.3
    [alarm] = alarms(values)[0]
    assert (alarm.change, alarm.seen) == (20, 22)
    assert alarms(values[:21])[0] == []  # an outlier


def test_what_was_seen_once_is_seen_when_more_results_came() -> None:
    values = np.random.default_rng(4).normal(3, 0.02, 60)
    values[20:] += 0.1
    values[45:] -= 0.1
    seen: list[Any] = []
    for end in range(len(values) + 1):
        found = [(alarm.change, alarm.seen) for alarm in alarms(values[:end])[0]]
        assert found[: len(seen)] == seen
        seen = found
    assert len(seen) == 2


def test_neighbours_that_are_alike_lower_the_evidence() -> None:
    rng = np.random.default_rng(7)
    days = [np.repeat(rng.normal(size=12), 5) for _ in range(30)]
    assert sum(len(alarms(each)[0]) for each in days) <= 30  # in 1,800 looks


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 50, [1.0, 2.0] * 3, [1.0] * (MIN_RESULTS - 2) + [9.0]])
def test_too_few_or_equal_values_have_no_change(values: list[float]) -> None:
    assert alarms(values)[0] == []


def test_a_step_without_noise_is_found() -> None:
    assert [alarm.change for alarm in alarms([1.0] * 8 + [2.0] * 8)[0]] == [8]


def test_among_several_series_the_evidence_has_to_be_larger() -> None:
    assert sure([]) == []
    assert sure([RUN_LENGTH]) == [True]
    assert sure([RUN_LENGTH, None]) == [False, False]
    assert sure([2 * RUN_LENGTH, None]) == [True, False]
    assert sure([RUN_LENGTH, RUN_LENGTH]) == [True, True]
    assert sure([5.0 * RUN_LENGTH, RUN_LENGTH, None, None]) == [True, False, False, False]


def test_as_many_more_values_as_are_missing_show_a_change() -> None:
    values = np.random.default_rng(5).normal(3, 0.02, 10)
    needed = results_needed(values, 1)
    assert needed is not None
    assert detectable(values, 1) is None
    assert detectable(np.resize(values, needed), 1) is not None
    assert detectable(np.resize(values, needed - 1), 1) is None
    assert results_needed(np.resize([3.0, 30.0], 20), 1) is None
