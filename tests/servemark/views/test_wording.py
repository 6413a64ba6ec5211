"""A scenario in words."""

from typing import Any

import pytest

from servemark.results.labels import describe, title

STAGES = [{"duration_s": 10.0, "rate": 100.0 * number} for number in range(1, 9)]


@pytest.mark.parametrize(
    ("scenario", "row", "heading"),
    [
        ({"mode": "closed", "concurrency": 8, "distribution": None}, "concurrency 8", "closed loop, concurrency 8"),
        (
            {"mode": "open", "requested_rate": 400.0, "distribution": "poisson"},
            "400/s poisson",
            "open loop, poisson 400 requests/s",
        ),
        (
            {"mode": "stages", "stages": STAGES[:2], "distribution": "constant"},
            "10 s at 100/s, 10 s at 200/s constant",
            "open loop, 10 s at 100/s, 10 s at 200/s constant",
        ),
        (
            {"mode": "trace", "trace": {"file": "t.csv", "arrivals": 12345}, "distribution": None},
            "trace t.csv, 12,345 arrivals",
            "open loop, trace t.csv, 12,345 arrivals",
        ),
        (
            {
                "mode": "trace",
                "trace": {"file": "t.csv", "arrivals": 3, "first": "2026-11-20T10:00:00.000+00:00", "speed": 2.0},
                "distribution": None,
            },
            "trace t.csv, 3 arrivals from 2026-11-20T10:00:00.000+00:00 at 2 times the speed",
            "open loop, trace t.csv, 3 arrivals from 2026-11-20T10:00:00.000+00:00 at 2 times the speed",
        ),
        (
            {"mode": "max-rate", "requested_rate": 123.456, "distribution": "poisson"},
            "123.456/s poisson",
            "highest rate, poisson 123.5 requests/s",
        ),
        (
            {"mode": "mix", "requested_rate": 90.0, "distribution": "poisson"},
            "90/s poisson",
            "open loop, poisson 90 requests/s in all",
        ),
    ],
)
def test_each_scenario_has_its_words(scenario: Any, row: str, heading: str) -> None:
    assert (describe(scenario), title(scenario)) == (row, heading)


def test_many_stages_are_counted() -> None:
    scenario: Any = {"mode": "stages", "stages": STAGES, "distribution": "poisson"}
    text = describe(scenario)
    assert text.endswith("10 s at 600/s, 2 more poisson")
