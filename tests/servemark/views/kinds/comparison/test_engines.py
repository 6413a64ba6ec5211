"""The first line of a comparison, and the contenders that no other beats."""

from collections.abc import Mapping
from typing import Any

import pytest

from servemark.views.kinds.comparison.engines import answer, pareto_front
from tests.servemark.views.snapshots import assert_unchanged

FAST, SLOW, ALIKE = (0.80, 0.78, 0.82), (2.38, 2.3, 2.5), (1.03, 0.96, 1.1)
Others = Mapping[str, tuple[float, ...]]
OTHERS: list[Others] = [
    {"a": (1.2, 1.1, 1.3), "b": SLOW, "c": (2.41, 2.3, 2.5)},
    {"a": FAST},
    {"a": FAST, "b": SLOW, "c": ALIKE},
    {"a": FAST, "b": (0.81, 0.79, 0.83)},
    {"a": ALIKE},
    {"a": FAST, "b": SLOW, "c": ALIKE, "d": (5.3, 5, 6), "e": (1.5, 1.4, 1.6)},
    {"a": ALIKE, "b": SLOW, "c": (1.3, 0.9, 1.9), "d": SLOW},
    dict.fromkeys("abcd", ALIKE),
    {"a": FAST, "b": FAST, "c": SLOW, "d": (6, 0.7, 60)},
    {"a": ALIKE, "b": SLOW},
    {"a": (0.92, 0.83, 1.02), "b": SLOW},
    {"a": (0.95, 0.93, 0.97), "b": (0.9, 0.7, 1.1)},
    {"a": SLOW[:1]},
    {"a": (0.47, 0.23, 0.95, False), "b": SLOW},
]
"""Ratios of p50, each with its interval, and whether it differs from 1 where all are tested together."""


def compared(others: Others) -> Any:
    """A comparison of these with the engine ort."""
    none = {"p50": None, "p99": None, "inferences_per_s": None, "max_rate": None}
    rows: list[Any] = [{"label": "ort", "ratio": none}]
    for name, (value, *more) in others.items():
        significant = more[2] if len(more) > 2 else not more[0] < 1 < more[1] if more else None
        ratio = {"value": value, "ci95": more[:2] or None, "significant": significant}
        rows.append({"label": name, "ratio": {**none, "p50": ratio}})
    return {"baseline": "ort", "rows": rows, "load": {"kind": "constant-rate", "rate": 100.0}}


def test_who_is_fastest_is_said_as_the_snapshot_has_it() -> None:
    lines = [line for others in OTHERS for line in (f"{others}:", *answer(compared(others)))]
    assert_unchanged("fastest", "\n".join(lines))


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
