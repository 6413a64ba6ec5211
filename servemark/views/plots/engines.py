"""Engines of a comparison as figures: each engine keeps its colour throughout the page."""

from collections.abc import Sequence

from servemark.quantities import figure
from servemark.results.schema.comparison import ComparisonRow
from servemark.results.schema.header import figure_of
from servemark.views.blocks import Block, Figure, Table
from servemark.views.drawing.axis import linear, logarithmic
from servemark.views.drawing.plot import Bar, Plot, ends
from servemark.views.engines import LOWER_IS_BETTER, RATIOS, ratio_of
from servemark.views.wording import RANDOM_WEIGHTS, agreement_words, only_agreement

FEWEST_OF_A_FRONT = 3
_CHANCE = "Lines: 95 % intervals over the rounds. Hollow: chance may explain the difference."


def figures(rows: Sequence[ComparisonRow]) -> list[Block]:
    """p50, p99 and throughput of each engine, as bars from 0."""
    parts: list[Block] = []
    for name in ("p50", "p99"):
        found = [(figure_of(row["latency_ms"], name), row["latency_ms"]["ci95"].get(name)) for row in rows]
        if all(value is None for value, _ in found):
            continue
        drawn = [Bar(_name(row), *each, number) for number, (row, each) in enumerate(zip(rows, found, strict=True))]
        head = ["engine", "ms", "95 % interval"]
        parts.append(Figure.of_bars(f"{name} of each engine", linear("ms", ends(drawn)), drawn, head))
    rates = [row["inferences_per_s"] for row in rows]
    drawn = [
        Bar(_name(row), each["mean"], each["ci95"], n) for n, (row, each) in enumerate(zip(rows, rates, strict=True))
    ]
    axis = linear("inferences/s", ends(drawn))
    return [
        *parts,
        Figure.of_bars("Throughput of each engine", axis, drawn, ["engine", "inferences/s", "95 % interval"]),
    ]


def ratios(rows: Sequence[ComparisonRow], first: str) -> list[Block]:
    """The others against the first, on an axis of equal ratios."""
    parts: list[Block] = []
    for title, key in RATIOS.items():
        drawn = [
            Bar(
                *(_name(row), ratio["value"], ratio["ci95"], number),
                hollow=not ratio["significant"],
                digits=3,
                said=("yes" if ratio["significant"] else "no") if ratio["ci95"] else "-",
            )
            for number, row in enumerate(rows)
            if (ratio := ratio_of(row, key))
        ]
        if drawn:
            better = "below 1 is faster" if key in LOWER_IS_BETTER else "above 1 is more"
            axis = logarithmic(f"ratio to {first}", [1.0, *ends(drawn)])
            head = ["engine", "ratio", "95 % interval", "beyond chance"]
            name = f"{title}, ratio to {first}: {better}"
            parts.append(Figure.of_bars(name, axis, drawn, head, note=_CHANCE, points=True))
    return parts


def in_flight(rows: Sequence[ComparisonRow]) -> list[Block]:
    """Mean requests in flight of each engine under an open loop, as bars; none for a closed loop."""
    found = [(number, row, each) for number, row in enumerate(rows) if (each := row.get("in_flight"))]
    if not found:
        return []
    drawn = [
        Bar(_name(row), each["mean"], each["ci95"], number, said=f"{each['most']:,}") for number, row, each in found
    ]
    axis = linear("requests in flight", ends(drawn))
    head = ["engine", "mean", "95 % interval", "most"]
    note = (
        "Mean: answers per second times mean latency (Little's law); failed requests are not in it. "
        "At equal rates more of them wait in a queue."
    )
    return [Figure.of_bars("Requests in flight, mean", axis, drawn, head, note=note)]


def pareto(rows: Sequence[ComparisonRow]) -> list[Block]:
    """Throughput against p99, with the line of those that no other beats in both (the Pareto front)."""
    found = [
        (row["inferences_per_s"]["mean"], p99, number, row["label"])
        for number, row in enumerate(rows)
        if (p99 := figure_of(row["latency_ms"], "p99")) is not None
    ]
    if len(found) < FEWEST_OF_A_FRONT:
        return []
    front = pareto_front([(speed, p99) for speed, p99, *_ in found])
    rates, times = [speed for speed, *_ in found], [p99 for _, p99, *_ in found]
    plot = Plot("p99 over inferences per second", linear("inferences/s", rates), linear("p99 ms", times))
    plot.line(front, "no other is better in both", 0)
    cells = []
    for speed, p99, number, label in found:
        on_it = (speed, p99) in front
        plot.dots([(speed, p99, label)], label, number, "dot" if on_it else "hollow")
        cells.append([label, figure(speed), figure(p99), "yes" if on_it else "no"])
    table = Table(["engine", "inferences/s", "p99 ms", "on the front"], cells)
    return [
        Figure.of(plot, "Throughput against p99", table, note="Filled: no other has more throughput and a lower p99.")
    ]


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points (more is better, less is better) that no other beats in both, the fastest first."""
    front: list[tuple[float, float]] = []
    for speed, p99 in sorted(set(points), key=lambda point: (-point[0], point[1])):
        if not front or p99 < front[-1][1]:
            front.append((speed, p99))
    return front


def agreements(rows: Sequence[ComparisonRow]) -> list[Block]:
    """Speed against agreement with fp32: the smallest cosine where outputs have one, else the equal first choices."""
    found = [(number, row, row["output_agreement"]) for number, row in enumerate(rows)]
    found = [each for each in found if each[2]["checked"]]
    cosine = all(agreement["cosine_min"] is not None for *_, agreement in found)
    key, words = ("cosine_min", "smallest cosine") if cosine else ("top1_agreement", "share with the same first choice")
    limits = sorted({limit for _, row, _ in found if (limit := _least_cosine(row)) is not None}) if cosine else []
    plot = Plot(
        f"{words} over inferences per second",
        linear("inferences/s", [row["inferences_per_s"]["mean"] for _, row, _ in found]),
        linear(words, [*(figure_of(each, key) for *_, each in found), *limits, 1.0], from_zero=False),
    )
    cells = []
    for number, row, agreement in found:
        speed, said = row["inferences_per_s"]["mean"], agreement_words(agreement)
        plot.dots([(speed, figure_of(agreement, key), f"{row['label']}: {said}")], row["label"], number)
        cells.append([row["label"], figure(speed), said])
    for limit in limits:
        plot.level(limit, f"tolerance {limit:g}")
    note = RANDOM_WEIGHTS if any(only_agreement(row, agreement) for _, row, agreement in found) else ""
    return [Figure.of(plot, f"{words} over speed", Table(["engine", "inferences/s", "agreement"], cells), note=note)]


def _least_cosine(row: ComparisonRow) -> float | None:
    """The smallest cosine that a reduced precision may have."""
    return (row["output_agreement"].get("tolerance") or {}).get("min_cosine")


def _name(row: ComparisonRow) -> str:
    return f"{row['label']}{'' if row['verdict']['valid'] else ' (INVALID rounds)'}"
