"""Figures of a comparison: the contenders that no other beats."""

import pytest

from servemark.views.plots.engines import pareto_front


@pytest.mark.parametrize(
    ("points", "front"),
    [
        ([(100.0, 10.0), (200.0, 20.0), (150.0, 25.0), (90.0, 9.0)], [(200.0, 20.0), (100.0, 10.0), (90.0, 9.0)]),
        ([(100.0, 10.0), (100.0, 12.0), (100.0, 10.0)], [(100.0, 10.0)]),
        ([(100.0, 10.0), (90.0, 10.0)], [(100.0, 10.0)]),
    ],
)
def test_the_front_has_what_no_other_beats_in_both(
    points: list[tuple[float, float]], front: list[tuple[float, float]]
) -> None:
    assert pareto_front(points) == front
