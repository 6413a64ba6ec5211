"""The sizes that errors are measured against: per element, from the golden samples, whatever else the output holds."""

import numpy as np
import pytest

from servemark.workload.output_scale import CROSS_SHARE, SHARE_OF_ALL, Figures, OutputScale

SAMPLES = 16


def normal(*shape: int) -> Figures:
    return np.random.default_rng(0).normal(size=shape)


def test_each_element_has_its_own_spread() -> None:
    boxes_and_score = normal(SAMPLES, 5) * [300, 300, 300, 300, 0.3]
    scale = OutputScale.of(boxes_and_score.astype(np.float32))
    assert scale.spread[:4].min() > 100
    assert 0.1 < scale.spread[4] < 0.4


def test_an_offset_is_not_a_size() -> None:
    values = normal(SAMPLES, 4)
    np.testing.assert_allclose(OutputScale.of(values + 1e4).spread, OutputScale.of(values).spread)


def test_an_outlier_does_not_widen_what_the_others_are_judged_by() -> None:
    values = normal(SAMPLES, 4)
    spoilt = values.copy()
    spoilt[3, 2] = 1e9
    before, scale = OutputScale.of(values), OutputScale.of(spoilt)
    assert scale.spread.max() < 2 * before.spread.max()
    assert scale.sizes(spoilt)[3, 2] == pytest.approx(1e9)
    assert scale.lengths(spoilt)[[0, 1]].max() < 1e2


def test_few_samples_that_are_alike_by_chance_take_from_the_whole() -> None:
    values = normal(2, 1000)
    scale = OutputScale.of(values)
    assert scale.spread.min() >= SHARE_OF_ALL * scale.whole > 0.01


@pytest.mark.parametrize("values", [np.array([[1.0, 2.0, 4.0]]), np.tile([[1.0, 2.0, 4.0]], (SAMPLES, 1))])
def test_without_samples_that_differ_the_elements_are_compared(values: Figures) -> None:
    assert 0.5 < OutputScale.of(values).whole < 2


def test_a_constant_element_counts_a_little_of_the_whole() -> None:
    values = normal(SAMPLES, 100)
    values[:, 0] = 0
    scale = OutputScale.of(values)
    assert scale.spread[0] == pytest.approx(CROSS_SHARE * scale.whole)


def test_what_is_not_finite_does_not_count() -> None:
    values = normal(SAMPLES, 4)
    spoilt = values.copy()
    spoilt[0, 0], spoilt[1, 1], spoilt[:, 2], spoilt[5] = np.nan, np.inf, -np.inf, np.nan
    scale = OutputScale.of(spoilt)
    assert np.isfinite([*scale.centre, *scale.spread, scale.whole]).all()
    assert scale.spread[2] == pytest.approx(CROSS_SHARE * scale.whole)
    assert np.isfinite(scale.sizes(spoilt)[1, 1])
    assert OutputScale.of(np.zeros((SAMPLES, 3))).whole == 0
    assert OutputScale.of(np.full((SAMPLES, 3), np.nan)).whole == 0
    assert OutputScale.of(np.zeros((SAMPLES, 0))).whole == 0
