"""The test of the claim: exact where a family's ratios are equal, and off by a known factor where they are not."""

import math

import numpy as np
import pytest

from servemark.characterise.analysis import CHOSEN, RANDOMLY, analyse, errors
from servemark.characterise.statistics import distances
from tests.support.characterised import CONVOLUTIONS, PRODUCTS, begun


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
