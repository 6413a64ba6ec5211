"""Windows over time: a run of many is drawn by the extremes of neighbours, in a page of a bounded size."""

from typing import cast

from servemark.results.schema.run import Result
from servemark.views.blocks import Table
from servemark.views.plots.over_time import MAX_POINTS, MAX_ROWS, thinned, windows
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
