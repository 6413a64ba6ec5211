"""Kernels as a page: how they did, the table of the terminal, and a roofline for each precision."""

from typing import cast

from servemark.report.drawing.axis import logarithmic
from servemark.report.drawing.plot import Plot
from servemark.report.kernels import (
    COLUMNS,
    FAMILY_COLUMNS,
    ceiling_words,
    cells,
    family_rows,
    named,
    outcome,
    share_words,
    title,
    unmeasured,
)
from servemark.report.page.blocks import Article, Badge, Block, Figure, Lines, Section, Table
from servemark.report.plots.circumstances import environment, made
from servemark.report.words import figure
from servemark.results.saved import Saved
from servemark.results.schema.kernels import Ceiling, KernelCase, KernelsDocument

BOUNDS = ("compute", "bandwidth", "latency")


def article(saved: Saved) -> Article:
    """How many were measured, families, cases, and where each lies under the ceilings."""
    document = cast(KernelsDocument, saved.document)
    cases = document["cases"]
    measured = [case for case in cases if case["ms"]]
    return Article(
        about=title(document),
        answer=outcome(document),
        sections=[
            Section("Ceilings of this run", [Lines([ceiling_words(each) for each in document["ceilings"]])]),
            Section("Families", [Table(FAMILY_COLUMNS, family_rows(cases))]),
            Section("Roofline", _rooflines(document, measured)),
            Section("Cases", [Table(COLUMNS, [cells(case) for case in measured])] if measured else []),
            Section("Not measured", [Lines(lines)] if (lines := unmeasured(cases)) else []),
            Section("Environment", environment(document)),
        ],
        badges=[Badge("FAILED", "bad")] if any(case["status"] == "failed" for case in cases) else [],
        made=made(document),
    )


def _rooflines(document: KernelsDocument, measured: list[KernelCase]) -> list[Block]:
    found = []
    for ceiling in document["ceilings"]:
        own = [case for case in measured if case["precision"] == ceiling["precision"] and case["tflops"]]
        if own:
            found.append(_roofline(ceiling, own))
    return list(found)


def _roofline(ceiling: Ceiling, cases: list[KernelCase]) -> Figure:
    """Operations a second over operations for each byte (Williams et al. 2009)."""
    ridge = ceiling["tflops"] * 1e3 / ceiling["gbps"]
    x = logarithmic("FLOP/byte", [*(case["intensity"] for case in cases), ridge])
    y = logarithmic("TFLOP/s", [*(case["tflops"] for case in cases), ceiling["tflops"]])
    plot = Plot(f"Roofline in {ceiling['precision']}", x, y)
    under = [x.low, min(max(ridge, x.low), x.high), x.high]
    roof = [(at, min(ceiling["tflops"], at * ceiling["gbps"] / 1e3)) for at in under]
    plot.line(roof, "ceilings of this run", 0)
    for colour, bound in enumerate(BOUNDS, start=1):
        own = [case for case in cases if case["bound"] == bound]
        points = [
            (case["intensity"], case["tflops"], f"{named(case)}: {figure(case['tflops'])} TFLOP/s") for case in own
        ]
        plot.dots(points, f"bound by {bound}", colour)
    rows = [
        [named(case), figure(case["intensity"]), figure(case["tflops"]), case["bound"] or "-", share_words(case)]
        for case in cases
    ]
    table = Table(["case", "FLOP/byte", "TFLOP/s", "bound", "of it"], rows)
    return Figure.of(plot, f"Roofline in {ceiling['precision']}", table, wide=True)
