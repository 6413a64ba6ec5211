"""The line that says when a trace was slow."""

from typing import Any

from servemark.results.saved import Saved
from servemark.views.slow_seconds import worst_seconds


def window(start_s: float, count: int, over: int | None, **figures: float) -> dict[str, Any]:
    """One window; a percentile that is not given is not known."""
    percentiles = dict.fromkeys(("p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms"), None)
    return {"start_s": start_s, "count": count, "errors": 0, "over_slo": over, **percentiles, **figures}


def result(windows: list[dict[str, Any]], *, first: str | None = None, speed: float = 1.0, slo: bool = True) -> Saved:
    found: dict[str, Any] = {
        "resolved": {},
        "scenario": {"trace": {"first": first}},
        "windows": windows,
        "request": {
            "load": {"kind": "trace", "file": "t.csv", "speed": speed},
            "objectives": {"slo": "p99:20" if slo else ""},
        },
    }
    return Saved("t", {"kind": "load", **found})


WINDOWS = [
    window(0, 200, 2, p95_ms=9.0, max_ms=30.0),
    window(1, 213, 37, p95_ms=113.8, max_ms=140.0),
    window(2, 40, 1, p50_ms=3.0, max_ms=21.0),
    window(3, 5, 0, max_ms=2.0),
]


def test_the_seconds_that_missed_the_objective_are_named_the_worst_first() -> None:
    assert worst_seconds(result(WINDOWS)) == [
        "p99 over 20 ms in 1 of 4 s; worst:",
        "  second 1: p95 113.8 ms, 37 of 213 over; 213 arrivals, 1.9 times the mean",
    ]
    assert worst_seconds(result([WINDOWS[0], WINDOWS[3]])) == ["p99 over 20 ms in 0 of 2 windows of 3 s"]


def test_calendar_times_are_said_at_the_trace_s_own_speed() -> None:
    said = worst_seconds(result(WINDOWS, first="2026-11-20T10:00:59.500+00:00", speed=2))
    assert said[1].startswith("  second 1 (10:01:01): p95")


def test_without_an_objective_the_longest_latencies_are_named() -> None:
    without = [{**each, "over_slo": None} for each in WINDOWS]
    said = worst_seconds(result(without, slo=False))
    assert [line.partition(";")[0] for line in said] == [
        "worst seconds:",
        "  second 1: p95 113.8 ms",
        "  second 0: p95 9 ms",
        "  second 2: p50 3 ms",
    ]


def test_no_trace_has_no_seconds() -> None:
    other = {"request": {"load": {"kind": "closed-loop"}}, "resolved": {}, "scenario": {"trace": None}}
    assert worst_seconds(Saved("t", {"kind": "load", **other, "windows": WINDOWS})) == []
    assert worst_seconds(result([window(0, 0, 0)])) == []


def test_a_second_says_how_its_requests_spent_their_time_in_the_server() -> None:
    server = {"queue_ms": 2.0, "compute_infer_ms": 5.0, "batch_size_mean": 4.0}
    busy, idle = ({**WINDOWS[1], "server": each} for each in (server, dict.fromkeys(server)))
    assert worst_seconds(result([busy, WINDOWS[3]]))[1].endswith("; in the server queue 2 + infer 5 ms, mean batch 4")
    assert worst_seconds(result([idle, WINDOWS[3]]))[1].endswith("times the mean")


def test_one_of_few_requests_over_the_limit_is_chance_and_several_are_not() -> None:
    for over, slow in ((1, 0), (3, 0), (4, 1)):
        assert f"in {slow} of 2 s" in worst_seconds(result([window(0, 50, over, max_ms=30.0), window(1, 50, 0)]))[0]
