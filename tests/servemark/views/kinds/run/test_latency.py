"""Windows over time, in a page of a bounded size, and the line that says when a trace was slow."""

from typing import Any, cast

from servemark.results.saved import Saved
from servemark.results.schema.run import Result
from servemark.views.blocks import Table
from servemark.views.kinds.run.latency import MAX_POINTS, MAX_ROWS, over_time, thinned, windows, worst_seconds
from tests.servemark.views.snapshots import assert_unchanged
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


def test_a_short_run_is_whole_and_without_a_latency_in_any_window_the_rate_alone_is_drawn() -> None:
    flags = ("--request-rate", "40", "--duration", "10", "--warmup", "1")
    found = windows(load_result(flags, evenly(40, 11, 0.02, first_s=1)))
    assert [len(figure.table.rows) for figure in found] == [10, 10]
    assert all("worst" not in figure.note for figure in found)
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
    load = {"kind": "trace", "file": "t.csv", "speed": speed}
    request = {"load": load, "objectives": {"slo": "p99:20" if slo else ""}}
    found = {"kind": "load", "request": request, "resolved": {}, "scenario": {"trace": {"first": first}}}
    return Saved("t", {**found, "windows": windows})


WINDOWS = [
    window(0, 200, 2, p95_ms=9.0, max_ms=30.0),
    window(1, 213, 37, p95_ms=113.8, max_ms=140.0),
    window(2, 40, 1, p50_ms=3.0, max_ms=21.0),
    window(3, 5, 0, max_ms=2.0),
]
SERVER = {"queue_ms": 2.0, "compute_infer_ms": 5.0, "batch_size_mean": 4.0}


def test_the_seconds_of_a_trace_that_were_slow_are_named_as_the_snapshot_has_them() -> None:
    without, idle = [{**each, "over_slo": None} for each in WINDOWS], dict.fromkeys(SERVER)
    found = {
        "the worst first": result(WINDOWS),
        "none": result([WINDOWS[0], WINDOWS[3]]),
        "calendar times of a trace at twice its speed": result(WINDOWS, first="2026-11-20T10:00:59.500+00:00", speed=2),
        "without an objective": result(without, slo=False),
        "in the server": result([WINDOWS[0], {**WINDOWS[1], "server": SERVER}]),
        "a server that executed nothing": result([WINDOWS[0], {**WINDOWS[1], "server": idle}]),
        "no arrivals": result([window(0, 0, 0)]),
        "no trace": Saved("t", {**result(WINDOWS).document, "request": {"load": {"kind": "closed-loop"}}}),
        # One of few requests over the limit is chance, and several are not.
        **{f"{over} of 50": result([window(0, 50, over, max_ms=30.0), window(1, 50, 0)]) for over in (1, 3, 4)},
    }
    lines = [line for name in found for line in (f"== {name}", *worst_seconds(found[name]))]
    assert_unchanged("worst_seconds", "\n".join(lines))


def test_stages_are_shown_without_a_request_log(saved: dict[str, Saved]) -> None:
    shown = over_time(Saved("stages", saved["stages"].document))
    assert [block.caption for block in shown if isinstance(block, Table)] == ["Stages"]
