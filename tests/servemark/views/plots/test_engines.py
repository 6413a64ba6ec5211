"""The first line of a comparison, and the contenders that no other beats."""

from typing import Any

import pytest

from servemark.views.plots.engines import answer, pareto_front

FAST, SLOW, ALIKE = (0.80, 0.78, 0.82), (2.38, 2.3, 2.5), (1.03, 0.96, 1.1)
OPEN = {"kind": "constant-rate", "rate": 100.0}


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


def compared(p50: dict[str, tuple[float, float, float] | None], load: Any = OPEN) -> Any:
    """A comparison with these ratios of p50, each with its interval."""
    ratios = {
        name: each and {"value": each[0], "ci95": list(each[1:]), "significant": not each[1] < 1 < each[2]}
        for name, each in p50.items()
    }
    none = {"p99": None, "inferences_per_s": None, "max_rate": None}
    rows = [{"label": name, "ratio": {**none, "p50": ratio}} for name, ratio in ratios.items()]
    return {"baseline": "ort", "rows": rows, "load": load}


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"a": (1.2, 1.1, 1.3), "b": SLOW, "c": (2.41, 2.3, 2.5)}, "ort is fastest: a 1.20x its p50, b and c 2.4x"),
        ({"a": FAST}, "a is fastest: 0.80x the p50 of ort"),
        ({"a": FAST, "b": SLOW, "c": ALIKE},
         "a is fastest: 0.80x the p50 of ort; slower: b 2.4x; not told apart from ort: c 1.03x (0.96 to 1.10)"),
        ({"a": FAST, "b": (0.81, 0.79, 0.83)}, "a and b are faster than ort: a 0.80x, b 0.81x its p50"),
        ({"a": ALIKE}, "no difference beyond chance: a 1.03x (0.96 to 1.10) the p50 of ort"),
        ({"a": FAST, "b": SLOW, "c": ALIKE, "d": (5.3, 5, 6), "e": (1.5, 1.4, 1.6)},
         "a is fastest with 0.80x the p50 of ort, then ort 1.00x, slowest d 5.3x, 3 others between"),
        ({"a": ALIKE, "b": SLOW, "c": (1.3, 0.9, 1.9), "d": SLOW},
         "ort leads, not told apart from a 1.03x its p50 and 1 more, slowest d 2.4x, 1 other between"),
        (dict.fromkeys("abcd", ALIKE),
         "no difference beyond chance among 5: from ort 1.00x to d 1.03x the p50 of ort"),
        ({"a": FAST, "b": FAST, "c": SLOW, "d": (6, 0.7, 60)},
         "a leads with 0.80x the p50 of ort, not told apart from b 0.80x and 1 more; 2 slower"),
        ({"a": ALIKE, "b": SLOW},
         "none is faster than ort beyond chance: a 1.03x (0.96 to 1.10) its p50; slower: b 2.4x"),
        ({"a": (0.92, 0.83, 1.02), "b": SLOW},
         "none is faster than ort beyond chance: a 0.92x (0.83 to 1.02) its p50; slower: b 2.4x"),
        ({"a": (0.95, 0.93, 0.97), "b": (0.9, 0.7, 1.1)},
         "a is faster than ort: a 0.95x its p50; not told apart from ort: b 0.90x (0.70 to 1.10)"),
    ],
)  # fmt: skip
def test_who_is_fastest(others: dict[str, tuple[float, float, float] | None], words: str) -> None:
    assert answer(compared({"ort": None, **others})) == [words]


def test_without_intervals_nobody_is_fastest() -> None:
    found = compared({"ort": None, "a": SLOW})
    found["rows"][1]["ratio"]["p50"] |= {"ci95": None, "significant": None}
    assert answer(found) == ["too few rounds to tell who is faster: a 2.4x the p50 of ort, without an interval"]


def test_why_a_ratio_may_be_chance_although_its_interval_leaves_out_1() -> None:
    found = compared({"ort": None, "a": (0.47, 0.23, 0.95), "b": SLOW})
    found["rows"][1]["ratio"]["p50"]["significant"] = False
    first, footnote = answer(found)
    assert first == "none is faster than ort beyond chance: a 0.47x (0.23 to 0.95) its p50; slower: b 2.4x"
    assert footnote == "a: an interval leaves out 1, which may still be luck: all ratios are tested together (Holm)"
