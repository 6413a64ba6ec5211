"""Engines side by side as a page: latencies and ratios with their intervals, speed against agreement."""

from collections.abc import Callable, Sequence
from typing import cast

from servemark.results.saved import Saved
from servemark.results.schema.comparison import ComparisonDocument, ComparisonRow
from servemark.results.schema.header import figure_of
from servemark.stats.ratios import RatioFigures
from servemark.views.drawing.axis import linear, logarithmic
from servemark.views.drawing.plot import Bar, Plot, bars
from servemark.views.headline import answer_of_comparison
from servemark.views.page.blocks import Article, Badge, Block, Figure, Lines, Section, Table
from servemark.views.plots.circumstances import environment, made
from servemark.views.terminal import regression
from servemark.views.terminal.comparison import RATIOS, device, heading, layout, notes, ratio_of, tables
from servemark.views.wording import RANDOM_WEIGHTS, agreement_words, figure, is_reduced, only_agreement

_CHANCE = "Lines: 95 % intervals over the rounds. Grey: chance may explain the difference."


def article(saved: Saved) -> Article:
    """The answer, the tables of the terminal, and the figures."""
    document = saved.of(ComparisonDocument)
    rows = document["rows"]
    gate = document.get("gate")
    answers = [*([*regression.answer(gate)] if gate else []), answer_of_comparison(document)]
    valid = all(row["verdict"]["valid"] for row in rows)
    badges = [Badge("VALID", "good") if valid else Badge("INVALID", "bad")]
    badges += [Badge("PARTIAL", "bad")] if document["partial"] else []
    return Article(
        about=heading(document),
        answer=answers[0],
        sections=[
            Section(
                "What to know", [Lines([*answers[1:], *notes(document)])] if [*answers[1:], *notes(document)] else []
            ),
            Section("Engines", [*(Table(head, cells) for head, cells in tables(document) if cells)]),
            Section("Ratios", _ratios(document)),
            Section("Latency and throughput", _figures(rows)),
            Section("Speed against agreement", _agreements(rows) if any(map(is_reduced, rows)) else []),
            Section("Rounds", _rounds(document)),
            Section("Environment", environment(document)),
        ],
        badges=badges,
        made=made(document),
    )


def _figures(rows: Sequence[ComparisonRow]) -> list[Block]:
    """p50, p99 and throughput of each engine, as bars from 0."""
    shown: list[
        tuple[str, str, Callable[[ComparisonRow], float | None], Callable[[ComparisonRow], list[float] | None]]
    ] = [
        ("p50", "ms", lambda row: row["latency_ms"]["p50"], lambda row: row["latency_ms"]["ci95"].get("p50")),
        ("p99", "ms", lambda row: row["latency_ms"]["p99"], lambda row: row["latency_ms"]["ci95"].get("p99")),
        (
            "Throughput",
            "inferences/s",
            lambda row: row["inferences_per_s"]["mean"],
            lambda row: row["inferences_per_s"]["ci95"],
        ),
    ]
    parts: list[Block] = []
    for number, (title, unit, value, interval) in enumerate(shown):
        drawn = [
            Bar(_name(row), _with(figure(value(row)), interval(row)), value(row), interval(row), number) for row in rows
        ]
        values = [end for bar in drawn for end in (bar.value, *(bar.interval or ()))]
        table = Table(
            ["engine", unit, "95 % interval"], [_row(row["label"], figure(value(row)), interval(row)) for row in rows]
        )
        parts.append(Figure(title, bars(f"{title} of each engine", linear(unit, values), drawn), table))
    return parts


def _ratios(document: ComparisonDocument) -> list[Block]:
    """The others against the first, on an axis of equal ratios."""
    first = document["baseline"]
    parts: list[Block] = []
    for number, (title, key) in enumerate(RATIOS.items()):
        found = [(row, ratio) for row in document["rows"] if (ratio := ratio_of(row, key))]
        if not found:
            continue
        drawn = [
            Bar(
                _name(row),
                _with(f"{ratio['value']:.3f}", ratio["ci95"], 3),
                ratio["value"],
                ratio["ci95"],
                number,
                ratio["significant"] is False,
            )
            for row, ratio in found
        ]
        values = [1.0, *(end for bar in drawn for end in (bar.value, *(bar.interval or ())))]
        axis = logarithmic(f"ratio to {first}", values)
        better = "below 1 is faster" if title in {"p50", "p99"} else "above 1 is more"
        table = Table(
            ["engine", "ratio", "95 % interval", "beyond chance"],
            [[*_row(row["label"], f"{ratio['value']:.3f}", ratio["ci95"], 3), _beyond(ratio)] for row, ratio in found],
        )
        name = f"{title}, ratio to {first}: {better}"
        parts.append(Figure(name, bars(name, axis, drawn, origin=None), table, note=_CHANCE))
    return parts


def _beyond(ratio: RatioFigures) -> str:
    return {True: "yes", False: "no"}.get(cast(bool, ratio["significant"]), "-")


def _agreements(rows: Sequence[ComparisonRow]) -> list[Block]:
    """Speed against agreement with fp32: the smallest cosine where outputs have one, else the equal first choices."""
    found = [(row, row["output_agreement"]) for row in rows if row["output_agreement"]["checked"]]
    cosine = all(agreement["cosine_min"] is not None for _, agreement in found)
    key, words = ("cosine_min", "smallest cosine") if cosine else ("top1_agreement", "share with the same first choice")
    limits = sorted({limit for row, _ in found if (limit := _least_cosine(row)) is not None}) if cosine else []
    values = [figure_of(agreement, key) for _, agreement in found]
    speeds = [row["inferences_per_s"]["mean"] for row, _ in found]
    plot = Plot(
        f"{words} over inferences per second",
        linear("inferences/s", speeds),
        linear(words, [*values, *limits, 1.0], from_zero=False),
    )
    for number, ((row, agreement), speed, value) in enumerate(zip(found, speeds, values, strict=True)):
        plot.dots([(speed, value, f"{row['label']}: {agreement_words(agreement)}")], row["label"], number % 8)
    for limit in limits:
        plot.level(limit, f"tolerance {limit:g}")
    cells = [
        [row["label"], figure(speed), agreement_words(agreement)]
        for (row, agreement), speed in zip(found, speeds, strict=True)
    ]
    note = RANDOM_WEIGHTS if any(only_agreement(row, agreement) for row, agreement in found) else ""
    return [Figure.of(plot, f"{words} over speed", Table(["engine", "inferences/s", "agreement"], cells), note=note)]


def _rounds(document: ComparisonDocument) -> list[Block]:
    """Every run in the order in which it was made."""
    rows = [
        [
            str(turn["round"]),
            turn["label"],
            figure(turn["p50_ms"]),
            figure(turn["inferences_per_s"]),
            "VALID" if turn["valid"] else f"INVALID ({', '.join(turn['failed'])})",
            (turn["objective"] or "-").upper(),
            turn["directory"],
        ]
        for turn in document["turns"]
    ]
    head = ["round", "engine", "p50 ms", "inferences/s", "verdict", "objective", "folder"]
    return [Table(head, rows, caption=f"{len(rows)} runs in order", folded=True)] if rows else []


def _least_cosine(row: ComparisonRow) -> float | None:
    """The smallest cosine that a reduced precision may have."""
    return (row["output_agreement"].get("tolerance") or {}).get("min_cosine")


def _name(row: ComparisonRow) -> str:
    parts = [device(row), *([] if layout(row) == "-" else [layout(row)]), str(row["precision"] or "?")]
    invalid = "" if row["verdict"]["valid"] else "; INVALID rounds"
    return f"{row['label']} ({', '.join(parts)}{invalid})"


def _with(shown: str, interval: list[float] | None, digits: int | None = None) -> str:
    return f"{shown} ({_ends(interval, digits)})" if interval else shown


def _row(label: str, shown: str, interval: list[float] | None, digits: int | None = None) -> list[str]:
    return [label, shown, _ends(interval, digits) if interval else "-"]


def _ends(interval: list[float], digits: int | None) -> str:
    return " to ".join(figure(end) if digits is None else f"{end:.{digits}f}" for end in interval)
