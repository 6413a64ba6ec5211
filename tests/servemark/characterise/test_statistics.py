"""Statistics against points whose clusters, medoids and places are known."""

import itertools

import numpy as np
import pytest

from servemark.characterise import statistics

CENTRES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])


@pytest.fixture
def points() -> statistics.Floats:
    """Three clouds of five, the centre of each first."""
    rng = np.random.default_rng(0)
    return np.vstack([np.vstack([centre, centre + rng.normal(0, 0.5, (4, 2))]) for centre in CENTRES])


def test_clusters_and_silhouette_find_the_clouds(points: statistics.Floats) -> None:
    assert statistics.clusters(points, 3).tolist() == [1] * 5 + [2] * 5 + [3] * 5
    found = statistics.silhouettes(points)
    assert max(found, key=lambda count: found[count]) == "3"
    assert found["3"] > 0.8


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_medoids_cost_no_more_than_any_other_subset(points: statistics.Floats, size: int) -> None:
    apart = statistics.distances(points)
    best = min(apart[:, list(few)].min(axis=1).sum() for few in itertools.combinations(range(15), size))
    chosen = statistics.medoids(apart, size)
    assert apart[:, chosen].min(axis=1).sum() == pytest.approx(best)
    assert (statistics.nearest(apart, chosen)[chosen] == chosen).all()


def test_medoids_of_many_points_are_swapped_until_nothing_helps(
    points: statistics.Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "_MOST_SUBSETS", 0)
    assert [point // 5 for point in statistics.medoids(statistics.distances(points), 3)] == [0, 1, 2]


def test_a_medoid_of_each_cloud(points: statistics.Floats) -> None:
    apart = statistics.distances(points)
    chosen = statistics.medoids(apart, 3)
    assert [point // 5 for point in chosen] == [0, 1, 2]
    assert [int(point) // 5 for point in statistics.nearest(apart, chosen)] == [0] * 5 + [1] * 5 + [2] * 5


def test_tsne_keeps_the_clouds_apart_and_is_seeded(points: statistics.Floats) -> None:
    first, again = (statistics.tsne(points, 1) for _ in range(2))
    assert (first == again).all()
    assert statistics.agreement(statistics.clusters(first, 3), statistics.clusters(points, 3)) == pytest.approx(1)


def test_principal_components_of_a_line_are_one() -> None:
    line = np.outer(np.arange(6.0), [1.0, 2.0, 2.0])
    places, share = statistics.principal(line)
    assert share == pytest.approx(1)
    assert np.ptp(places[:, 0]) == pytest.approx(15)  # five steps of the length 3


def test_sizes_and_shares_count_alike() -> None:
    rng = np.random.default_rng(1)
    sizes, shares = 10 ** rng.uniform(0, 9, (12, 4)), rng.dirichlet(np.ones(9), 12)
    found = statistics.comparable(sizes, shares)
    for group in (found[:, :4], found[:, 4:]):
        assert group.var(axis=0).sum() == pytest.approx(1)
    # Another unit of a size changes nothing.
    assert statistics.comparable(sizes * 1e3, shares) == pytest.approx(found)


def test_features_that_do_not_differ_are_no_distance() -> None:
    assert statistics.comparable(np.ones((4, 2)), np.full((4, 3), 1 / 3)) == pytest.approx(np.zeros((4, 5)))
