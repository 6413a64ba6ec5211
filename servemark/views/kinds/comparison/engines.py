"""Engines of a comparison: who is fastest beyond chance, in words, and figures in which each keeps its colour."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from servemark.documents.load import ClosedLoop
from servemark.documents.saved_load import read_single_load
from servemark.quantities import figure, with_interval
from servemark.results.schema.comparison import ComparisonDocument, ComparisonRow
from servemark.results.schema.header import figure_of
from servemark.stats.ratios import RatioFigures
from servemark.views.blocks import Block, Figure, Table
from servemark.views.charts import Bar
from servemark.views.drawing import Plot, linear
from servemark.views.wording import RANDOM_WEIGHTS, agreement_words, listed, only_agreement

RatioName = Literal["p50", "p99", "inferences_per_s", "max_rate"]
RATIOS: dict[str, RatioName] = {"p50": "p50", "p99": "p99", "throughput": "inferences_per_s", "max rate": "max_rate"}
"""Of an engine to the first, as they are called and as comparison.json calls them."""
LOWER_IS_BETTER = ("p50", "p99")
_MEASURES: dict[RatioName, str] = {"max_rate": "highest rate", "p50": "p50", "inferences_per_s": "throughput"}
"""Ratios that tell who is fastest; the first that is known decides."""
_MANY = 4
"""Contenders above which the answer names the ends and leaves the rest to the table."""
_FASTER, _MORE = ("is fastest", "are faster", "is faster"), ("serves most", "serve more", "serves more")
"""Words for the best one, for several, and for one that is better than another."""
Ratios = Mapping[str, RatioFigures]
FEWEST_OF_A_FRONT = 3
_CHANCE = "Lines: 95 % intervals over the rounds. Hollow: chance may explain the difference."


def answer(document: ComparisonDocument) -> list[str]:
    """Say who is fastest beyond chance, by which factor, or that none is; of a closed loop also by throughput.

    Like "onnxruntime is fastest: openvino 1.20x its p50, pytorch and tensorflow 2.4x".
    """
    first, rows, load = document["baseline"], document["rows"], document["load"]
    known = [key for key in _MEASURES if any(row["ratio"][key] for row in rows)]
    if not known:
        return [f"{first} alone: {figure(rows[0]['inferences_per_s']['mean'])} inferences/s" if rows else "no figures"]
    closed = load is not None and isinstance(read_single_load(load), ClosedLoop)
    shown = [known[0], *(key for key in known[1:] if key == "inferences_per_s" and closed)]
    return [*(_fastest(first, rows, key) for key in shown), *_tested_together(rows, shown)]


def _tested_together(rows: Sequence[ComparisonRow], shown: Sequence[RatioName]) -> list[str]:
    """Explain ratios that may be chance, although the interval of each leaves out 1."""
    found = [(str(row["label"]), ratio) for key in shown for row in rows if (ratio := row["ratio"][key])]
    chance = [(name, ratio["ci95"]) for name, ratio in found if not ratio["significant"]]
    odd = {name for name, ends in chance if ends and not ends[0] <= 1 <= ends[1]}
    if not odd:
        return []
    names = listed([name for name in dict(found) if name in odd])
    return [f"{names}: an interval leaves out 1, which may still be luck: all ratios are tested together (Holm)"]


def _fastest(first: str, rows: Sequence[ComparisonRow], key: RatioName) -> str:
    found = {str(row["label"]): ratio for row in rows if (ratio := row["ratio"][key])}
    measure, lower = _MEASURES[key], key in LOWER_IS_BETTER
    best, better, which = _FASTER if lower else _MORE
    if len(found) + 1 > _MANY:
        return _ends(first, found, measure, lower)
    if not all(ratio["ci95"] for ratio in found.values()):
        return f"too few rounds to tell who {which}: {_times(found)} the {measure} of {first}, without an interval"
    alike = {name: ratio for name, ratio in found.items() if not ratio["significant"]}
    faster = {name: ratio for name, ratio in found.items() if name not in alike and (ratio["value"] < 1) is lower}
    slower = {name: ratio for name, ratio in found.items() if name not in alike and name not in faster}
    ordered = sorted(faster, key=lambda name: faster[name]["value"], reverse=not lower)
    chance = ", ".join(f"{name} {with_interval(times(ratio), ratio['ci95'], 2)}" for name, ratio in alike.items())
    behind = _times(slower, f" its {measure}") if slower else ""
    if not faster and not alike:
        return f"{first} {best}: {behind}"
    if not faster and not slower:
        return f"no difference beyond chance: {chance} the {measure} of {first}"
    if not faster:
        return f"none {which} than {first} beyond chance: {chance} its {measure}; slower: {_times(slower)}"
    if all(_apart(faster[ordered[0]], found[name], lower) for name in [*ordered[1:], *alike]):
        factors = _times({name: faster[name] for name in ordered}) if len(ordered) > 1 else times(faster[ordered[0]])
        said = [f"{ordered[0]} {best}: {factors} the {measure} of {first}"]
    else:
        more = better if len(ordered) > 1 else which
        said = [f"{listed(ordered)} {more} than {first}: {_times({n: faster[n] for n in ordered})} its {measure}"]
    said += [f"slower: {_times(slower)}"] if slower else []
    return "; ".join([*said, *([f"not told apart from {first}: {chance}"] if alike else [])])


def _ends(first: str, found: Ratios, measure: str, lower: bool) -> str:
    """Name the first, the second and the last of many: "a is fastest with 0.62x the p50 of ort, then b 0.75x, ..."."""
    of_first: RatioFigures = {"value": 1.0, "ci95": [1.0, 1.0], "p_value": None, "significant": True}
    ratios = {first: of_first, **found}
    order = sorted(ratios, key=lambda name: ratios[name]["value"], reverse=not lower)
    best, second, *_, last = order
    whose = f"the {measure} of {first}"
    ends = f"from {best} {times(ratios[best])} to {last} {times(ratios[last])} {whose}"
    best_is, _, which = _FASTER if lower else _MORE
    if not all(ratio["ci95"] for ratio in found.values()):
        return f"too few rounds to tell who {which}: {ends}, without intervals"
    alike = [name for name in order[1:] if not _apart(ratios[best], ratios[name], lower)]
    if len(alike) == len(order) - 1:
        return f"no difference beyond chance among {len(order)}: {ends}"
    of, its = ("", f" its {measure}") if best == first else (f" with {times(ratios[best])} {whose}", "")
    if alike:
        more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        lead = f"{best} leads{of}, not told apart from {alike[0]} {times(ratios[alike[0]])}{its}{more}"
    else:
        lead = f"{best} {best_is}{of}, then {second} {times(ratios[second])}{its}"
    if last in alike:
        return f"{lead}; {len(order) - 1 - len(alike)} slower"
    between = len(order) - 2 - max(len(alike), 1)
    others = f", {between} other{'s' * (between > 1)} between" if between else ""
    return f"{lead}, slowest {last} {times(ratios[last])}{others}"


def _apart(best: RatioFigures, other: RatioFigures, lower: bool) -> bool:
    """Return True if the interval of the best ratio lies beyond the other's."""
    one, two = best["ci95"] or [1.0, 1.0], other["ci95"] or [1.0, 1.0]
    return one[1] < two[0] if lower else one[0] > two[1]


def _times(found: Ratios, of_what: str = "") -> str:
    """Join engines of one factor: "openvino 1.20x its p50, pytorch and tensorflow 2.4x"."""
    groups: dict[str, list[str]] = {}
    for name, ratio in found.items():
        groups.setdefault(times(ratio), []).append(name)
    first, *others = (f"{listed(names)} {factor}" for factor, names in groups.items())
    return ", ".join([first + of_what, *others])


def times(ratio: RatioFigures) -> str:
    """Format a factor: "1.20x", "2.4x"."""
    value = ratio["value"]
    return f"{value:.2f}x" if value < 2 else f"{value:.1f}x" if value < 10 else f"{value:,.0f}x"


def device(row: ComparisonRow) -> str:
    """Name an engine's device, and its provider if that says more: "cpu, eager", but not "cpu, CPU"."""
    place = str(row["device"] or "?")
    kind = "cpu" if place.startswith("cpu") else "cuda|gpu"
    more = re.sub(rf"^({kind})(:\d+)?\s*", "", str(row["provider"] or ""), flags=re.IGNORECASE)
    more = more.replace("ExecutionProvider", "").strip()
    known = {"", str(row["precision"]), str(row["precision"]).replace("fp", "f")}
    return place if more in known else f"{place}, {more}"


def layout(row: ComparisonRow) -> str:
    """The instances of an engine and the threads of each, as its configuration says; 0 leaves them to the engine."""
    found = row.get("configuration")
    return f"{found['instances']} x {found['threads'] or 'all'}" if found else "-"


def figures(rows: Sequence[ComparisonRow]) -> list[Block]:
    """p50, p99 and throughput of each engine, as bars from 0."""
    parts: list[Block] = []
    for name in ("p50", "p99"):
        found = [(figure_of(row["latency_ms"], name), row["latency_ms"]["ci95"].get(name)) for row in rows]
        if all(value is None for value, _ in found):
            continue
        drawn = [Bar(_name(row), *each, number) for number, (row, each) in enumerate(zip(rows, found, strict=True))]
        head = ["engine", "ms", "95 % interval"]
        parts.append(Figure.of_bars(f"{name} of each engine", "ms", drawn, head))
    rates = [row["inferences_per_s"] for row in rows]
    drawn = [
        Bar(_name(row), each["mean"], each["ci95"], n) for n, (row, each) in enumerate(zip(rows, rates, strict=True))
    ]
    head = ["engine", "inferences/s", "95 % interval"]
    return [*parts, Figure.of_bars("Throughput of each engine", "inferences/s", drawn, head)]


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
            if (ratio := row["ratio"][key])
        ]
        if drawn:
            better = "below 1 is faster" if key in LOWER_IS_BETTER else "above 1 is more"
            head, unit = ["engine", "ratio", "95 % interval", "beyond chance"], f"ratio to {first}"
            name = f"{title}, {unit}: {better}"
            parts.append(Figure.of_bars(name, unit, drawn, head, note=_CHANCE, points=True, around=[1.0]))
    return parts


def in_flight(rows: Sequence[ComparisonRow]) -> list[Block]:
    """Mean requests in flight of each engine under an open loop, as bars; none for a closed loop."""
    found = [(number, row, each) for number, row in enumerate(rows) if (each := row.get("in_flight"))]
    if not found:
        return []
    drawn = [
        Bar(_name(row), each["mean"], each["ci95"], number, said=f"{each['most']:,}") for number, row, each in found
    ]
    head = ["engine", "mean", "95 % interval", "most"]
    note = (
        "Mean: answers per second times mean latency (Little's law); failed requests are not in it. "
        "At equal rates more of them wait in a queue."
    )
    return [Figure.of_bars("Requests in flight, mean", "requests in flight", drawn, head, note=note)]


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
    tolerances = [agreement.get("tolerance") or {} for *_, agreement in found]
    limits = sorted({each["min_cosine"] for each in tolerances if "min_cosine" in each}) if cosine else []
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
    plot.levels((f"tolerance {limit:g}", limit) for limit in limits)
    note = RANDOM_WEIGHTS if any(only_agreement(row, agreement) for _, row, agreement in found) else ""
    return [Figure.of(plot, f"{words} over speed", Table(["engine", "inferences/s", "agreement"], cells), note=note)]


def _name(row: ComparisonRow) -> str:
    return f"{row['label']}{'' if row['verdict']['valid'] else ' (INVALID rounds)'}"
