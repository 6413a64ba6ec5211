"""The search for the highest rate: every run, the objective, the rate that was found and its interval."""

from servemark.quantities import figure
from servemark.results.objectives import latency_objective, parse_objectives
from servemark.results.schema.run import Result
from servemark.results.schema.search import RatePoint
from servemark.results.verdict import verdict_words
from servemark.views.blocks import Block, Figure, Table
from servemark.views.drawing.axis import linear, logarithmic
from servemark.views.drawing.plot import BAD, GOOD, Plot
from servemark.views.wording import highest

HOLLOW = "hollow: the run is INVALID"


def search(result: Result) -> list[Block]:
    """Each run's latency over its rate."""
    found = result["max_rate"]
    slowest = latency_objective(parse_objectives(result["request"]["objectives"]["slo"]))
    name = slowest.name if slowest else "latency"
    points = found["points"]
    plot = Plot(
        f"{name} of each run over its rate",
        linear("requests/s on the schedule", [point["rate"] for point in points], from_zero=False),
        logarithmic(f"{name}, ms", [*(point["latency_ms"] for point in points), slowest.limit if slowest else None]),
    )
    low, high = found.get("ci95") or (None, None)
    if low is not None and high is not None:
        plot.band(low, high)
    for words, met, colour in (("met", True, GOOD), ("not met", False, BAD)):
        for form, valid in (("dot", True), ("hollow", False)):
            shown = [
                (point["rate"], point["latency_ms"], _words(number, point))
                for number, point in enumerate(points, 1)
                if point["met"] is met and point["valid"] is valid
            ]
            plot.dots(shown, words if valid else f"{words}, INVALID", colour, form)
    if slowest:
        plot.level(slowest.limit, f"objective {slowest.name} {slowest.limit:g} ms")
    if found["rate"] is not None:
        plot.mark(found["rate"], f"{highest(found)}/s")
    rows = [
        [
            f"{number}",
            f"{figure(point['rate'])}",
            figure(point["latency_ms"]),
            verdict_words(point["failed"], point["objective"]),
            "met" if point["met"] else f"not met: {point['bottleneck']}",
        ]
        for number, point in sorted(enumerate(points, 1), key=lambda each: each[1]["rate"])
    ]
    table = Table(["run", "requests/s", f"{name} ms", "verdict", "rate"], rows)
    note = "" if all(point["valid"] for point in points) else HOLLOW
    return [Figure.of(plot, f"{name} over the rate", table, note=note, tabled=True)]


def _words(number: int, point: RatePoint) -> str:
    """One run."""
    verdict = verdict_words(point["failed"], point["objective"])
    return f"run {number}: {figure(point['latency_ms'])} ms at {figure(point['rate'])}/s; {verdict}"
