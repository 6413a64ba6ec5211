"""Quality beside speed: what each row keeps of fp32's score."""

from typing import Any

import pytest

from servemark.compare.interleaved.document import rows
from servemark.stats.unknown import explained
from tests.support.rounds import turn


def scored(label: str, value: float, metric: str = "HR@10", *, sha: str = "a", examples: int = 900) -> Any:
    """A round whose answers score so much."""
    made = turn(1, label, 10.0)
    engine, _, precision = label.partition(" ")
    result: Any = made.result
    result["engine"], result["precision"] = engine, precision or "fp32"
    score = {
        "metric": metric,
        "higher_is_better": metric == "HR@10",
        "figures": [{"name": metric, "value": value, "ci95": [value - 0.03, value + 0.03]}],
        "weights": "trained",
        "target": 0.75,
        "outcome": "met" if value >= 0.75 else "missed",
        "data": {"scored": examples, "sha256": sha},
    }
    result["details"]["quality"]["score"] = score
    return made


def kept(*turns: Any) -> list[float | None]:
    found: Any = explained(rows)(turns, list(dict.fromkeys(each.label for each in turns)))
    return [row["quality"]["of_fp32"] for row in found]


def test_each_precision_is_held_against_its_own_engine_in_fp32() -> None:
    values = {"o": 0.8, "v": 0.5, "o int8": 0.796, "v int8": 0.49, "p int8": 0.4}
    found = kept(*(scored(label, value) for label, value in values.items()))
    assert found == [None, None, pytest.approx(0.995), pytest.approx(0.98), pytest.approx(0.5)]


@pytest.mark.parametrize(("metric", "share"), [("perplexity", 0.1 / 0.2), ("WER", 0.8 / 0.9)])
def test_where_less_is_better_the_share_is_turned_round_and_of_words_it_is_of_those_that_are_right(
    metric: str, share: float
) -> None:
    assert kept(scored("o", 0.1, metric), scored("o int8", 0.2, metric)) == [None, pytest.approx(share)]


def test_other_examples_are_not_compared() -> None:
    assert kept(scored("o", 0.8), scored("o int8", 0.7, sha="b")) == [None, None]


def test_the_round_that_scored_the_most_counts() -> None:
    few, many = scored("o", 0.1, examples=3), scored("o", 0.8)
    [row] = explained(rows)([few, many], ["o"])
    quality = row.get("quality")
    assert quality is not None
    assert (quality["value"], quality["examples"]) == (0.8, 900)
