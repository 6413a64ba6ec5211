"""Several runs side by side: one row and one line each, and the throughput-latency curve of a range of rates."""

from collections.abc import Sequence

from servemark.results.labels import describe
from servemark.results.saved import Saved
from servemark.results.schema.header import figure_of
from servemark.results.schema.run import Curve, CurvePoint, Result, Series
from servemark.results.verdict import said, verdict_words
from servemark.views.drawing.axis import linear, logarithmic
from servemark.views.drawing.plot import Plot
from servemark.views.html.load import limits
from servemark.views.page.blocks import Article, Badge, Block, Figure, Lines, Section, Table
from servemark.views.plots.circumstances import environment, made
from servemark.views.plots.distribution import by_percentile
from servemark.views.wording import figure, rate

_LINES = {"mean_ms": ("mean", 7), "p50_ms": ("p50", 0), "p90_ms": ("p90", 2), "p99_ms": ("p99", 1)}
MAX_LINES = 8
"""Maximum number of runs that share a plot."""


def article(saved: Saved) -> Article:
    """The curve with its knee where there is one, and every run."""
    document = saved.of(Series)
    results, curve = document["results"], document.get("curve")
    valid = sum(result["verdict"]["valid"] for result in results)
    names = sorted({f"{result['workload']} on {result['engine']}" for result in results})
    counted = f"{len(results)} runs, {valid} VALID"
    return Article(
        about=", ".join(names),
        answer=f"{_knee(curve)}; {counted}" if curve else counted,
        sections=[
            Section("Rate and latency", _curve(curve, results[0]) if curve else []),
            Section("Runs", [_runs(results, curve)]),
            Section("Latency of each", _distributions(saved.parts)),
            Section("Environment of the first", environment(results[0])),
        ],
        badges=[Badge("VALID", "good") if valid == len(results) else Badge(f"{len(results) - valid} INVALID", "bad")],
        made=made(results[0]),
    )


def _knee(curve: Curve) -> str:
    knee = "no knee" if curve["knee"] is None else f"knee at {curve['knee']:g} requests/s"
    return f"{knee}: {curve['knee_reason']}"


def _curve(curve: Curve, result: Result) -> list[Block]:
    points = curve["points"]
    levels = limits(result)
    values = [figure_of(point, key) for point in points for key in _LINES]
    plot = Plot(
        "Latency over the rate that was answered",
        linear("answered requests/s", [point["requests_per_s"] for point in points]),
        logarithmic("latency from the schedule, ms", [*values, *(limit for _, limit in levels)]),
    )
    for key, (name, colour) in _LINES.items():
        ordered = [(point["requests_per_s"], figure_of(point, key)) for point in points]
        if any(value is not None for _, value in ordered):
            plot.line(ordered, name, colour)
        for form, valid in (("dot", True), ("hollow", False)):
            shown = [point for point in points if point["valid"] is valid]
            marked = [(point["requests_per_s"], figure_of(point, key), _words(name, point, key)) for point in shown]
            plot.dots(marked, "", colour, form)
    for point in points:
        if point["rate"] == curve["knee"]:
            plot.mark(point["requests_per_s"], f"knee {point['rate']:g}/s")
    for words, limit in levels:
        plot.level(limit, words)
    head = ["asked for/s", "answered/s", "completed", *(f"{name} ms" for name, _ in _LINES.values()), "runs", "verdict"]
    rows = [
        [
            f"{point['rate']:g}",
            rate(point["requests_per_s"]),
            f"{point['completed_share']:.1%}",
            *(figure(figure_of(point, key)) for key in _LINES),
            str(point["runs"]),
            _verdict(point),
        ]
        for point in points
    ]
    note = f"Knee: {curve['definition']}."
    note += "" if all(point["valid"] for point in points) else " Hollow: the run is INVALID."
    return [Figure.of(plot, "Latency over the answered rate", Table(head, rows), note=note)]


def _words(name: str, point: CurvePoint, key: str) -> str:
    asked = f"{point['rate']:g}/s requested, {_verdict(point)}"
    return f"{name} {figure(figure_of(point, key))} ms at {rate(point['requests_per_s'])}/s; {asked}"


def _verdict(point: CurvePoint) -> str:
    """Both answers of a rate."""
    return verdict_words([] if point["valid"] else ["see its result"], point["objective"])


def _runs(results: Sequence[Result], curve: Curve | None) -> Table:
    columns = ("mean", "p50", "p90", "p99", "max")
    head = ["run", "load", "requests/s", "inferences/s", *(f"{key} ms" for key in columns), "failed", "verdict"]
    rows = []
    for result in results:
        metrics = result["metrics"]
        knee = curve is not None and curve["knee"] == result["scenario"]["requested_rate"]
        rows.append(
            [
                f"{result['workload']} on {result['engine']}, {result['device']}, {result['precision']}",
                f"{describe(result['scenario'])}, batch {result['batch_size']}",
                rate(metrics["throughput"]["requests_per_s"]),
                rate(metrics["throughput"]["inferences_per_s"]),
                *(figure(figure_of(metrics["latency_ms"], key)) for key in columns),
                f"{metrics['errors']['count']:,}",
                said(result["verdict"]) + (" <- knee" if knee else ""),
            ]
        )
    return Table(head, rows, marked=[number for number, each in enumerate(results) if not each["verdict"]["valid"]])


def _distributions(parts: Sequence[Saved]) -> list[Block]:
    """The latency of each run by percentile, on shared axes."""
    found = {part.name: part.histograms["latency_us"] for part in parts if "latency_us" in part.histograms}
    found = {name: histogram for name, histogram in found.items() if histogram.count}
    shown = dict(list(found.items())[:MAX_LINES])
    if not shown:
        return []
    more = [Lines([f"the plot shows the first {MAX_LINES} of {len(found)} runs"])] if len(found) > MAX_LINES else []
    return [*more, by_percentile(shown)]
