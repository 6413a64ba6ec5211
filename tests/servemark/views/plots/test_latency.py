"""Windows over time, in a page of a bounded size, and the line that says when a trace was slow."""

from typing import Any, cast

from servemark.results.saved import Saved
from servemark.results.schema.run import Result
from servemark.views.blocks import Table
from servemark.views.plots.latency import MAX_POINTS, MAX_ROWS, over_time, thinned, windows, worst_seconds
from tests.support.measured import evenly, load_result

MANY = 20_000


def of_many_windows() -> Result:
    """One window in between has the longest latency, another has failures."""
    result = load_result(("--request-rate", "40"), evenly(40, 15, 0.02))
    usual = {**result["windows"][0], "requests_per_s": 40.0, "count": 40, "max_ms": 21.0, "p50_ms": 20.0}
    found = [{**usual, "start_s": float(second)} for second in range(MANY)]
    found[12_345]["max_ms"] = 987.0
    found[777]["errors"] = 5
    scenario = {**result["scenario"], "duration_s": float(MANY), "measured_s": float(MANY)}
    return cast(Result, {**result, "windows": found, "scenario": scenario})


def test_a_long_run_keeps_its_worst_windows() -> None:
    figures = windows(of_many_windows())
    assert all(len(figure.svg) < 60_000 for figure in figures)
    for figure in figures:
        assert len(figure.table.rows) <= MAX_ROWS
        assert "The table has the worst of each 40 windows" in figure.note
    latency, rate = (figure.table.rows for figure in figures)
    assert next(row for row in latency if row[0] == "12345")[-1] == "987"
    assert [row[0] for row in rate if row[2] != "0"] == ["777"]


def test_a_short_run_is_whole() -> None:
    flags = ("--request-rate", "40", "--duration", "10", "--warmup", "1")
    found = windows(load_result(flags, evenly(40, 11, 0.02, first_s=1)))
    assert [len(figure.table.rows) for figure in found] == [10, 10]
    assert all("worst" not in figure.note for figure in found)


def test_without_a_latency_in_any_window_the_rate_alone_is_drawn() -> None:
    found = windows(load_result(("--request-rate", "40"), evenly(40, 15, 0.02)))
    assert [figure.title for figure in found] == ["Rate over time"]


def test_neighbours_are_shown_by_their_extremes() -> None:
    points: list[tuple[float, float | None]] = [(float(x), float(x % 7)) for x in range(50_000)]
    points[31_415] = (31_415.0, 99.0)
    points[40_000:41_000] = [(float(x), None) for x in range(40_000, 41_000)]
    kept = thinned(points)
    assert len(kept) <= MAX_POINTS
    assert [x for x, _ in kept] == sorted(x for x, _ in kept)
    assert {value for _, value in kept} == {0.0, 6.0, 99.0, None}
    assert thinned(points[:MAX_POINTS]) == points[:MAX_POINTS]


def test_the_columns_of_a_table_are_looked_at_once() -> None:
    """The template asks for them in each row."""
    table = Table(["a", "b"], [["1", "x"]])
    assert table.numeric is table.numeric
    assert table.numeric == [True, False]


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


def test_stages_are_shown_without_a_request_log(saved: dict[str, Saved]) -> None:
    shown = over_time(Saved("stages", saved["stages"].document))
    assert [block.caption for block in shown if isinstance(block, Table)] == ["Stages"]
