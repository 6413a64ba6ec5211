"""Latencies of a run: by percentile, cumulated, and over time by windows, request log and the worst seconds."""

import itertools
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from servemark.documents.load import Trace
from servemark.documents.saved_load import load_of, rate_of
from servemark.figures.registry import count_of, value_of
from servemark.library import Requests, read_requests
from servemark.quantities import figure
from servemark.results.objectives import latency_objective, parse_objectives
from servemark.results.saved import Saved
from servemark.results.schema.details import StageFigures, WindowFigures
from servemark.results.schema.header import figure_of
from servemark.results.schema.run import Result
from servemark.stats.histogram import Histogram
from servemark.stats.percentiles import beyond_chance
from servemark.views.blocks import Block, Figure, Lines, Table
from servemark.views.drawing import BAD, Axis, Level, Plot, Point, linear, logarithmic, percentiles
from servemark.views.wording import values

SHOWN = 3
"""Maximum number of the worst seconds that are named."""
_PERCENTILES = ("p99", "p95", "p90", "p50")
_LINES = {"p50_ms": ("p50", 0), "p90_ms": ("p90", 2), "p99_ms": ("p99", 1), "max_ms": ("max", 7)}
Floats = npt.NDArray[np.float64]
COLUMNS, ROWS = 80, 28
"""Cells of the heatmap, at most."""
MAX_POINTS, MAX_ROWS = 1000, 500
"""Of a line and of its table: beyond them neighbours are shown by their extremes. A plot is 560 wide."""
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999)
"""Rows of the table, as far as the samples reach."""
_POINTS = 160
_SAVED = {"latency_us": "latency", "service_time_us": "service time"}


def quantiles(histogram: Histogram, shares: Sequence[float]) -> list[float]:
    """Nearest-rank quantiles of the answered requests in ms."""
    answered = histogram.answered()
    return [answered.percentile(100 * share) for share in shares]


def by_percentile(found: Mapping[str, Histogram], levels: Sequence[Level] = ()) -> Figure:
    """Latency by percentile; each further nine takes the same room, so that tails can be compared."""
    lines = {name: _to_the_last(histogram) for name, histogram in found.items()}
    values = [ms for line in lines.values() for _, ms in line]
    most = max(histogram.count for histogram in found.values())
    plot = Plot(
        f"Latency by percentile: {', '.join(found)}",
        percentiles("percentile", most),
        logarithmic("ms", [*values, *(limit for _, limit in levels)]),
    )
    for number, (name, line) in enumerate(lines.items()):
        plot.line(line, name, number)
    plot.levels(levels)
    return Figure.of(plot, "Latency by percentile", _table(found), note="HdrHistogram's axis: one more nine, one step.")


def cumulated(found: Mapping[str, Histogram], levels: Sequence[Level] = ()) -> Figure:
    """The share of requests within a latency."""
    shares = [number / _POINTS for number in range(_POINTS + 1)]
    lines = {name: list(zip(quantiles(each, shares), shares, strict=True)) for name, each in found.items()}
    values = [ms for line in lines.values() for ms, _ in line]
    plot = Plot(
        f"Share of requests within a latency: {', '.join(found)}",
        logarithmic("ms", [*values, *(limit for _, limit in levels)]),
        linear("share of requests", [0.0, 1.0]),
    )
    for number, (name, line) in enumerate(lines.items()):
        plot.line(line, name, number)
    for words, limit in levels:
        plot.mark(limit, words)
    rows = [
        [figure(ms), *[f"{1 - each.count_above(ms) / each.count:.2%}" for each in found.values()]]
        for ms, _ in logarithmic("", values).ticks
    ]
    return Figure.of(plot, "Share of requests within a latency", Table(["within ms", *found], rows))


def _to_the_last(histogram: Histogram) -> list[tuple[float, float]]:
    """Points up to the last percentile that a sample of its own tells."""
    last = np.log10(max(histogram.count, 10))
    shares = [1 - 10.0**-nines for nines in np.linspace(0, last, _POINTS)]
    return list(zip(shares, quantiles(histogram, shares), strict=True))


def _table(found: Mapping[str, Histogram]) -> Table:
    most = max(histogram.count for histogram in found.values())
    shares = [share for share in SHARES if (1 - share) * most >= 1]
    rows = []
    columns = {name: quantiles(histogram, shares) for name, histogram in found.items()}
    for number, share in enumerate(shares):
        known = [
            figure(columns[name][number]) if (1 - share) * each.count >= 1 else "-" for name, each in found.items()
        ]
        rows.append([f"{100 * share:.10g}%", *known])
    rows.append(["100%", *(figure(histogram.max_ns / 1e6) for histogram in found.values())])
    return Table(["percentile", *(f"{name} ms" for name in found)], rows)


def windows(result: Result, levels: Sequence[Level] = ()) -> list[Figure]:
    """Latency and rate of each window; none where nothing was measured."""
    found = result["windows"]
    if not found:
        return []
    shown = _shown(found)
    return [*([_latency(result, levels, shown)] if shown else []), _rate(result)]


def _shown(found: Sequence[WindowFigures]) -> dict[str, tuple[str, int]]:
    """The lines of the latency; one of few windows says nothing of the others."""
    known = {key: sum(window.get(key) is not None for window in found) for key in _LINES}
    return {key: line for key, line in _LINES.items() if known[key] >= max(len(found) / 4, 1)}


def heatmap(requests: Requests, length_s: float, levels: Sequence[Level] = ()) -> Figure | None:
    """Plot the number of requests by time and latency; None if none succeeded."""
    good = requests[requests.measured & (requests.error == "") & (requests.latency_ms > 0)]
    due, latency = good.scheduled_ns / 1e9, good.latency_ms
    if not len(due):
        return None
    x = linear("s", [0.0, length_s])
    y = logarithmic("ms", [float(latency.min()), float(latency.max())])
    xs: Floats = np.linspace(0.0, length_s, min(COLUMNS, max(math.ceil(len(due) / 10), 2)) + 1)
    ys: Floats = np.geomspace(y.low, y.high, ROWS + 1)
    counts = _counts(due, latency, xs, ys)
    plot = Plot("Requests by time and latency; darker means more", x, y)
    plot.cells(xs.tolist(), ys.tolist(), counts.astype(int).tolist())
    plot.levels((words, limit) for words, limit in levels if y.low < limit < y.high)
    return Figure.of(
        plot,
        "Requests by time and latency",
        _coarse(due, latency, xs, y),
        note=f"{len(due):,} requests of the request log by when they were due; darker means more.",
    )


def _latency(result: Result, levels: Sequence[Level], shown: Mapping[str, tuple[str, int]]) -> Figure:
    found = result["windows"]
    values = [_figure(window, key) for window in found for key in shown]
    plot = Plot(
        f"Latency over time: {', '.join(name for name, _ in shown.values())}",
        linear("s", [0.0, _end(result)]),
        logarithmic("ms", [*values, *(limit for _, limit in levels)]),
    )
    for key, (name, colour) in shown.items():
        _steps(plot, result, [(window["start_s"], _figure(window, key)) for window in found], name, colour)
    plot.levels(levels)
    _begin_stages(plot, result["stages"])
    cold = result.get("cold_start")
    if cold is not None and cold["steady_after_s"] is not None:
        plot.mark(cold["steady_after_s"], "steady")
    head = ["start s", "requests/s", "requests", "failed", *(f"{name} ms" for name, _ in shown.values())]
    rows = [
        [
            f"{window['start_s']:g}",
            figure(window["requests_per_s"]),
            f"{window['count']:,}" if "count" in window else "-",
            f"{window['errors']:,}",
            *(figure(_figure(window, key)) for key in shown),
        ]
        for window in _told(found)
    ]
    lacking = [name for key, (name, _) in _LINES.items() if any(window.get(key) is None for window in found)]
    missing = f"A gap, or no {', '.join(lacking)}: too few requests in the window." if lacking else ""
    return Figure.of(plot, "Latency over time", Table(head, rows), note=f"{missing} {_left_out(found)}".strip())


def _rate(result: Result) -> Figure:
    found, asked = result["windows"], _asked(result)
    each_s = zip(found, _lengths(result), strict=True)
    failed = {window["start_s"]: window["errors"] / length_s if length_s else 0.0 for window, length_s in each_s}
    values = [*(window["requests_per_s"] for window in found), *(per_s for _, per_s in asked), *failed.values()]
    time = linear("s", [0.0, _end(result)])
    plot = Plot("Requests per second over time", time, linear("requests/s", values))
    _steps(plot, result, [(window["start_s"], window["requests_per_s"]) for window in found], "answered", 0)
    if asked:
        _steps(plot, result, asked, "asked for", 7)
    if any(window["errors"] for window in found):
        _steps(plot, result, [*failed.items()], "failed", BAD)
    _begin_stages(plot, result["stages"])
    rows = [
        [f"{window['start_s']:g}", figure(window["requests_per_s"]), figure(failed[window["start_s"]])]
        for window in _told(found)
    ]
    head = ["start s", "answered/s", "failed/s"]
    return Figure.of(plot, "Rate over time", Table(head, rows), note=_left_out(found))


def _figure(window: WindowFigures, key: str) -> float | None:
    return figure_of(window, key) if key in window else None


def _steps(plot: Plot, result: Result, points: Sequence[Point], words: str, colour: int) -> None:
    """Draw values of which each holds until the next, and the last one until the end."""
    drawn = thinned(points)
    plot.line([*drawn, (_end(result), drawn[-1][1])], words, colour, stepped=True)


def thinned(points: Sequence[Point]) -> Sequence[Point]:
    """At most MAX_POINTS of them: of neighbours the least and the greatest, and a gap where none is known."""
    if len(points) <= MAX_POINTS:
        return points
    length = math.ceil(len(points) / (MAX_POINTS // 2))
    kept: list[Point] = []
    for first in range(0, len(points), length):
        known = [(value, x) for x, value in points[first : first + length] if value is not None]
        kept += sorted({(x, value) for value, x in (min(known), max(known))}) if known else [(points[first][0], None)]
    return kept


def _told(found: Sequence[WindowFigures]) -> list[WindowFigures]:
    """At most MAX_ROWS windows: of neighbours the one with most failures, or with the longest latency."""
    length = math.ceil(len(found) / MAX_ROWS)
    groups = (found[first : first + length] for first in range(0, len(found), length))
    return [max(group, key=lambda window: (window["errors"], window.get("max_ms") or 0.0)) for group in groups]


def _left_out(found: Sequence[WindowFigures]) -> str:
    length = math.ceil(len(found) / MAX_ROWS)
    return f"The table has the worst of each {length:,} windows, the plot their extremes." if length > 1 else ""


def _end(result: Result) -> float:
    starts = [window["start_s"] for window in result["windows"]]
    measured = result["scenario"]["measured_s"] or result["scenario"]["duration_s"]
    return max(measured, starts[-1])


def _lengths(result: Result) -> list[float]:
    starts = [*(window["start_s"] for window in result["windows"]), _end(result)]
    return [after - before for before, after in itertools.pairwise(starts)]


def _asked(result: Result) -> list[tuple[float, float]]:
    """The rate that was asked for, from when; of a trace its arrivals in each window; none in a closed loop."""
    if result["scenario"]["trace"] is not None:
        whole = zip(result["windows"], _lengths(result), strict=True)
        arrived = [(each["start_s"], each.get("count", 0) + each["errors"], length) for each, length in whole]
        return [(start, count / length) for start, count, length in arrived if length]
    if result["stages"]:
        return [(stage["start_s"], stage["requested_rate"]) for stage in result["stages"]]
    asked = rate_of(result)
    return [(0.0, asked)] if asked is not None else []


def _begin_stages(plot: Plot, stages: Sequence[StageFigures]) -> None:
    for stage in stages[1:]:
        plot.mark(stage["start_s"], f"{stage['requested_rate']:,g}/s")


def _counts(due: Floats, latency: Floats, xs: Floats, ys: Floats) -> Floats:
    """Count the requests in each cell between the edges."""
    return np.histogramdd(np.column_stack([due, latency]), [xs, ys])[0]


def _coarse(due: Floats, latency: Floats, xs: Floats, y: Axis) -> Table:
    """Fewer cells than are drawn, for reading."""
    times = np.linspace(xs[0], xs[-1], min(10, len(xs) - 1) + 1)
    edges = [y.low, *(tick for tick, _ in y.ticks if y.low < tick < y.high), y.high]
    counts = _counts(due, latency, times, np.array(edges))
    head = ["from s", *(f"to {figure(limit)} ms" for limit in edges[1:])]
    rows = [[f"{start:.4g}", *(f"{int(count):,}" for count in row)] for start, row in zip(times, counts, strict=False)]
    return Table(head, rows)


def worst_seconds(saved: Saved) -> list[str]:
    """Like "p99 over 20 ms in 2 of 21 s; worst: second 14: p95 113.8 ms, 37 of 213 over"; a line each. No trace: none.

    Each second says how many arrivals it had, compared with the mean, and how its requests spent their time in the
    server, where its statistics are known.
    """
    result = saved.of(Result)
    load, trace, windows = load_of(result), result["scenario"]["trace"], result["windows"]
    if not isinstance(load, Trace) or trace is None or not any(map(_arrivals, windows)):
        return []
    first = datetime.fromisoformat(trace["first"]) if trace["first"] else None
    slo = latency_objective(parse_objectives(result["request"]["objectives"]["slo"]))
    length_s = windows[1]["start_s"] if len(windows) > 1 else 1.0
    mean = sum(map(_arrivals, windows)) / len(windows)
    shown, said = windows, "worst seconds:"
    if slo is not None:
        shown = [window for window in windows if beyond_chance(_over(window), _arrivals(window), slo.percentile)]
        unit = "s" if length_s == 1 else f"windows of {length_s:g} s"
        said = f"{slo.name} over {slo.limit:g} ms in {len(shown)} of {len(windows)} {unit}{'; worst:' if shown else ''}"
    ranked = sorted(shown, key=lambda window: (_over(window), window["max_ms"] or 0.0), reverse=True)[:SHOWN]
    return [
        said,
        *(
            f"  {_place(window['start_s'], length_s, first, load.speed)}: {_words(window)}; {_arrivals(window):,} "
            f"arrivals, {_arrivals(window) / mean:.1f} times the mean{_in_server(window)}"
            for window in ranked
        ),
    ]


def _arrivals(window: WindowFigures) -> int:
    return window["count"] + window["errors"]


def _in_server(window: WindowFigures) -> str:
    """Format what Triton's statistics say of a window; "" where they are not known.

    Like "; in the server queue 12.30 + infer 3.10 ms, mean batch 3.20".
    """
    server = window.get("server")
    if server is None or server["queue_ms"] is None or server["compute_infer_ms"] is None:
        return ""
    spent = f"queue {figure(server['queue_ms'])} + infer {figure(server['compute_infer_ms'])} ms"
    return f"; in the server {spent}, mean batch {figure(server['batch_size_mean'])}"


def _over(window: WindowFigures) -> int:
    return window["over_slo"] or 0


def _place(start: float, length_s: float, first: datetime | None, speed: float) -> str:
    """Name the second of the trace, with its calendar time if the trace has one."""
    place = f"second {start:g}" if length_s == 1 else f"second {start:g} to {start + length_s:g}"
    return place if first is None else f"{place} ({first + timedelta(seconds=start * speed):%H:%M:%S})"


def _words(window: WindowFigures) -> str:
    """The highest percentile that the window's count supports, else the maximum; and what exceeded the objective."""
    known = [(name, value) for name in _PERCENTILES if (value := figure_of(window, f"{name}_ms")) is not None]
    name, value = known[0] if known else ("max", window["max_ms"])
    failed = f", {window['errors']:,} failed" if window["errors"] else ""
    over = "" if window["over_slo"] is None else f", {_over(window):,} of {_arrivals(window):,} over"
    return (f"{name} {figure(value)} ms" if value is not None else "none answered") + over + failed


def distributed(saved: Saved) -> list[Block]:
    """The distributions from the saved histograms."""
    found = {words: saved.histograms[key] for key, words in _SAVED.items() if key in saved.histograms}
    found = {words: histogram for words, histogram in found.items() if histogram.count}
    if not found:
        return [Lines(["no distribution: no histograms.json with answered requests beside the result"])]
    levels = limits(saved.of(Result))
    return [by_percentile(found, levels), cumulated(found, levels)]


def limits(result: Result) -> list[Level]:
    """The objectives on a latency, in words and in ms."""
    found = [slo for slo in parse_objectives(result["request"]["objectives"]["slo"]) if slo.timed]
    return [(f"objective {slo.name} {slo.limit:g} ms", slo.limit) for slo in found]


def over_time(saved: Saved) -> list[Block]:
    """Show the windows, the heatmap of the request log, and the stages."""
    result = saved.of(Result)
    levels = limits(result)
    parts: list[Block] = [*windows(result, levels)]
    requests = read_requests(saved.folder) if saved.folder else None
    if requests is None:
        parts.append(Lines(["no heatmap: no requests.csv beside the result; --request-log keeps one"]))
    else:
        seconds = result["scenario"]["measured_s"] or result["scenario"]["duration_s"]
        drawn = heatmap(requests, seconds, levels)
        parts.append(drawn or Lines(["no heatmap: no request of the log succeeded"]))
    return [*parts, *_stages(result)]


def _stages(result: Result) -> list[Block]:
    head = ["stage from s", "for s", "asked for/s", "answered/s", "failed", "p50 ms", "p99 ms"]
    rows = [
        [
            *(f"{stage['start_s']:g}", f"{stage['duration_s']:g}", f"{stage['requested_rate']:,g}"),
            *(figure(value_of(stage, "throughput.requests")), f"{count_of(stage, 'errors.count'):,}"),
            *values(stage, ("latency.p50", "latency.p99")),
        ]
        for stage in result["stages"]
    ]
    return [Table(head, rows, caption="Stages")]
