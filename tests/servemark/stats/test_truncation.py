"""MSER against its definition, and on series whose transient is known."""

import numpy as np
import pytest

from servemark.stats.truncation import IRRELEVANT, LAST, truncation_point


def by_definition(values: list[float]) -> int:
    """s^2(d) / (n - d), s^2 with its floor."""
    errors = []
    for point in range(len(values) - LAST + 1):
        kept = np.array(values[point:])
        errors.append((kept.var() + (IRRELEVANT * kept.mean()) ** 2) / len(kept))
    return int(np.argmin(errors))


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_smallest_marginal_standard_error(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = 1e6 * (1 + rng.exponential(1, 60) * np.linspace(rng.uniform(0, 5), 1, 60))
    assert truncation_point(values) == by_definition(values.tolist())


@pytest.mark.parametrize("cold", [0, 3, 20])
def test_a_known_transient_is_cut(cold: int) -> None:
    rng = np.random.default_rng(0)
    values = np.where(np.arange(100) < cold, 10.0, 1.0) * rng.normal(1, 0.1, 100)
    assert cold <= truncation_point(values) <= cold + 3


def test_what_goes_on_changing_has_no_steady_part_and_what_hardly_changes_is_kept() -> None:
    assert truncation_point(np.linspace(1, 10, 100)) > 50
    assert truncation_point(np.linspace(1, 1.02, 100)) == 0
    assert truncation_point(np.ones(100)) == 0
