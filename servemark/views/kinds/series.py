"""Several runs side by side: a row and a line each, how far repeats lie apart, and the curve of a range of rates."""

from collections.abc import Iterator, Sequence

from servemark.documents.saved_load import described, rate_of
from servemark.figures.registry import count_of, value_of
from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.header import figure_of
from servemark.results.schema.run import Result, Series
from servemark.results.schema.search import Curve, CurvePoint
from servemark.results.verdict import said, verdict_words
from servemark.stats.ratios import MINIMUM_REPEATS, variation
from servemark.views.blocks import Article, Badge, Block, Figure, Lines, Section, Table
from servemark.views.drawing import Plot, linear, logarithmic
from servemark.views.kinds.run.latency import by_percentile, limits
from servemark.views.kinds.run.sections import cold_starts
from servemark.views.shape import environment, made
from servemark.views.wording import cells, values

_LINES = {"mean_ms": ("mean", 7), "p50_ms": ("p50", 0), "p90_ms": ("p90", 2), "p99_ms": ("p99", 1)}
_COLUMNS = ("mean", "p50", "p90", "p99", "max")
MAX_LINES = 8
"""Maximum number of runs that share a plot."""


def article(saved: Saved) -> Article:
    """The curve with its knee where there is one, and every run."""
    document = saved.of(Series)
    results, curve = document["results"], document.get("curve")
    bad = [number for number, each in enumerate(results) if not each["verdict"]["valid"]]
    counted = f"{len(results)} runs, {len(results) - len(bad)} VALID"
    first = results[0]
    invalid = (
        f"INVALID: the figures of {len(bad)} of {len(results)} runs cannot be quoted. Each verdict names the reason."
    )
    knee = [f"knee: {curve['definition']}"] if curve else []
    return Article(
        about=", ".join(sorted({f"{result['workload']} on {_engine(result)}" for result in results})),
        answer=f"{_knee(curve)}; {counted}" if curve else counted,
        explained=[invalid] if bad else [],
        sections=[
            Section("Runs", [_runs(results, curve, bad), Lines([*_variations(results), *knee])]),
            Section("Cold starts", cold_starts(results)),
            Section("Rate and latency", lambda: _curve(curve, first) if curve else []),
            Section("Latency of each", lambda: _distributions(saved.parts)),
            Section("Environment of the first", lambda: environment(first)),
        ],
        badges=[Badge(f"{len(bad)} INVALID", "bad") if bad else Badge("VALID", "good")],
        made=made(first),
    )


def _knee(curve: Curve) -> str:
    knee = "no knee" if curve["knee"] is None else f"knee at {curve['knee']:,g} requests/s"
    return f"{knee}: {curve['knee_reason']}"


def _engine(result: Result) -> str:
    """Return the engine, or the protocol where the server does not tell one."""
    return result["engine"] or result["protocol"]


def _runs(results: Sequence[Result], curve: Curve | None, bad: Sequence[int]) -> Table:
    speeds = ("scheduled/s", "answered/s", "inferences/s")
    head = ["run", "load", *speeds, *(f"{key} ms" for key in _COLUMNS), "failed", "verdict"]
    rows = []
    for result in results:
        knee = curve is not None and curve["knee"] == rate_of(result)
        known = [_engine(result), result["device"], result["precision"]]
        rows.append(
            [
                f"{result['workload']} on {', '.join(filter(None, known))}",
                f"{described(result)}, batch {result['batch_size']}",
                *values(result, ("throughput.scheduled", "throughput.requests", "throughput.inferences")),
                *values(result, [f"latency.{key}" for key in _COLUMNS]),
                f"{count_of(result, 'errors.count'):,}",
                said(result["verdict"]) + ("  <- knee" if knee else ""),
            ]
        )
    same = len({row[0] for row in rows}) == 1
    return Table(head[1:], [row[1:] for row in rows], marked=bad) if same else Table(head, rows, marked=bad)


def _variations(results: Sequence[Result]) -> Iterator[str]:
    """Yield the coefficients of variation of repeats."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(described(result), []).append(result)
    for name, runs in groups.items():
        if len(runs) >= MINIMUM_REPEATS:
            throughput = _variation([value_of(run, "throughput.requests") for run in runs])
            p50 = _variation([value_of(run, "latency.p50") for run in runs])
            yield f"{name}: coefficient of variation over {len(runs)} repeats: throughput {throughput}, p50 {p50}"


def _variation(values: Sequence[float | None]) -> str:
    found = variation(values)
    return "not known" if found is None else f"{found:.1%}"


def _curve(curve: Curve, result: Result) -> list[Block]:
    points, levels = curve["points"], limits(result)
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
            plot.mark(point["requests_per_s"], f"knee {point['rate']:,g}/s")
    plot.levels(levels)
    head = ["asked for/s", "answered/s", "completed", *(f"{name} ms" for name, _ in _LINES.values()), "runs", "verdict"]
    rows = [
        [
            *(f"{point['rate']:,g}", figure(point["requests_per_s"]), f"{point['completed_share']:.1%}"),
            *cells(point, tuple(_LINES)),
            *(str(point["runs"]), _verdict(point)),
        ]
        for point in points
    ]
    note = "" if all(point["valid"] for point in points) else "Hollow: the run is INVALID."
    return [Figure.of(plot, "Latency over the answered rate", Table(head, rows), note=note)]


def _words(name: str, point: CurvePoint, key: str) -> str:
    asked = f"{point['rate']:,g}/s requested, {_verdict(point)}"
    return f"{name} {figure(figure_of(point, key))} ms at {figure(point['requests_per_s'])}/s; {asked}"


def _verdict(point: CurvePoint) -> str:
    """Both answers of a rate."""
    return verdict_words([] if point["valid"] else ["see its result"], point["objective"])


def _distributions(parts: Sequence[Saved]) -> list[Block]:
    """The latency of each run by percentile, on shared axes."""
    found = {part.name: part.histograms["latency_us"] for part in parts if "latency_us" in part.histograms}
    found = {name: histogram for name, histogram in found.items() if histogram.count}
    shown = dict(list(found.items())[:MAX_LINES])
    if not shown:
        return []
    more = [Lines([f"the plot shows the first {MAX_LINES} of {len(found)} runs"])] if len(found) > MAX_LINES else []
    return [*more, by_percentile(shown)]
