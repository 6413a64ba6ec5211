"""Statistics against points whose clusters, medoids and places are known, and the test of the claim.

That is exact where a family's ratios are equal, and off by a known factor where they are not.
"""

import itertools
import math

import numpy as np
import pytest

from servemark.characterise import analysis as module
from servemark.characterise.analysis import (
    CHOSEN,
    RANDOMLY,
    Floats,
    agreement,
    analyse,
    clusters,
    comparable,
    distances,
    errors,
    medoids,
    nearest,
    principal,
    silhouettes,
    tsne,
)
from tests.support.characterised import CONVOLUTIONS, PRODUCTS, begun

CENTRES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])


def test_one_of_each_family_predicts_the_others() -> None:
    analysis, prediction = analyse(begun())
    assert analysis is not None
    assert prediction is not None
    few = analysis["chosen"]
    assert sorted(name in CONVOLUTIONS for name in few) == [False, True]
    family = {name: names for names in (CONVOLUTIONS, PRODUCTS) for name in names}
    assert all(placed["stands_in"] in family[placed["workload"]] for placed in analysis["placed"])
    claims = {claim["subset"]: claim for claim in prediction["claims"]}
    assert claims[CHOSEN]["members"] == few
    assert claims[CHOSEN]["factor"] == pytest.approx(1)
    assert claims[CHOSEN]["judged"] == 4
    # The mean of 1/2 and 2 is 1, so it is off by 2 in two contexts of three, as is no prediction at all.
    assert claims[CHOSEN]["mean_factor"] == pytest.approx(2 ** (2 / 3), rel=0.1)
    assert prediction["unchanged_factor"] == pytest.approx(2 ** (2 / 3), rel=0.1)
    # Two of one family, 2 of 5 random pairs, fail on the three of the other one.
    assert claims[CHOSEN]["better_than"] == pytest.approx(0.4, abs=0.06)
    assert claims[RANDOMLY]["factor"] == pytest.approx(1)


def test_an_error_is_the_logarithm_of_the_factor_whichever_way_it_is_off() -> None:
    apart = distances(np.array([[0.0], [1.0], [5.0], [6.0]]))
    logs = np.log([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [4.0, math.nan]])
    found = errors(logs, apart, [0, 2])
    assert np.exp(found) == pytest.approx([2, 4])
    by_mean = errors(logs, apart, [0, 2], by_mean=True)
    assert np.exp(by_mean) == pytest.approx([2**0.75, 4])


def test_predicted_ratios_are_no_features() -> None:
    document = begun()
    before, _ = analyse(document)
    for row in document["rows"]:
        row["engines"][1]["batches"] = [{"batch_size": 1, "ms": 123.0, "rounds": 3}]
    after, _ = analyse(document)
    assert before == after


def test_too_few_workloads_are_told() -> None:
    document = begun()
    document["rows"] = document["rows"][:3]
    assert analyse(document)[0] is not None  # an unknown figure, until the document is written
    assert "3 workloads ran" in str(analyse(document)[0])


@pytest.fixture
def points() -> Floats:
    """Three clouds of five, the centre of each first."""
    rng = np.random.default_rng(0)
    return np.vstack([np.vstack([centre, centre + rng.normal(0, 0.5, (4, 2))]) for centre in CENTRES])


def test_clusters_and_silhouette_find_the_clouds(points: Floats) -> None:
    assert clusters(points, 3).tolist() == [1] * 5 + [2] * 5 + [3] * 5
    found = silhouettes(points)
    assert max(found, key=lambda count: found[count]) == "3"
    assert found["3"] > 0.8


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_medoids_cost_no_more_than_any_other_subset(points: Floats, size: int) -> None:
    apart = distances(points)
    best = min(apart[:, list(few)].min(axis=1).sum() for few in itertools.combinations(range(15), size))
    chosen = medoids(apart, size)
    assert apart[:, chosen].min(axis=1).sum() == pytest.approx(best)
    assert (nearest(apart, chosen)[chosen] == chosen).all()


@pytest.mark.parametrize("most", [0, 50_000])
def test_a_medoid_of_each_cloud_by_swaps_and_by_all_subsets(
    points: Floats, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(module, "_MOST_SUBSETS", most)
    apart = distances(points)
    chosen = medoids(apart, 3)
    assert [point // 5 for point in chosen] == [0, 1, 2]
    assert [int(point) // 5 for point in nearest(apart, chosen)] == [0] * 5 + [1] * 5 + [2] * 5


def test_tsne_keeps_the_clouds_apart_and_is_seeded(points: Floats) -> None:
    first, again = (tsne(points, 1) for _ in range(2))
    assert (first == again).all()
    assert agreement(clusters(first, 3), clusters(points, 3)) == pytest.approx(1)


def test_principal_components_of_a_line_are_one() -> None:
    line = np.outer(np.arange(6.0), [1.0, 2.0, 2.0])
    places, share = principal(line)
    assert share == pytest.approx(1)
    assert np.ptp(places[:, 0]) == pytest.approx(15)  # five steps of the length 3


def test_sizes_and_shares_count_alike() -> None:
    rng = np.random.default_rng(1)
    sizes, shares = 10 ** rng.uniform(0, 9, (12, 4)), rng.dirichlet(np.ones(9), 12)
    found = comparable(sizes, shares)
    for group in (found[:, :4], found[:, 4:]):
        assert group.var(axis=0).sum() == pytest.approx(1)
    # Another unit of a size changes nothing.
    assert comparable(sizes * 1e3, shares) == pytest.approx(found)


def test_features_that_do_not_differ_are_no_distance() -> None:
    assert comparable(np.ones((4, 2)), np.full((4, 3), 1 / 3)) == pytest.approx(np.zeros((4, 5)))
