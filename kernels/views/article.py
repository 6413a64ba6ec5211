"""A kernels document: outcome, tables, and a roofline for each precision."""

from typing import Any

from kernels.views.notes import (
    DEFECTS,
    caveats,
    ceiling_lines,
    explained,
    families,
    gflops,
    measured_cases,
    outcome,
    published,
    roofs,
    sensed,
    share_words,
    unmapped,
    unmeasured,
)
from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.kernels import Ceiling, KernelCase, KernelsDocument, named, title
from servemark.views.blocks import Article, Block, Check, Figure, Lines, Section, Table
from servemark.views.drawing import Plot, logarithmic
from servemark.views.shape import shaped

BOUNDS = ("compute", "cache", "memory", "latency")


def article(saved: Saved) -> Article:
    """The outcome, families, cases, and their places under the ceilings."""
    document = saved.of(KernelsDocument)
    cases = document["cases"]
    measured = [case for case in cases if case["ms"]]
    traced, theirs = document["traced"], published(cases)
    return shaped(
        document,
        about=title(document),
        answer=outcome(document),
        sections=[
            Section("Ceilings", [Lines(ceiling_lines(document))]),
            Section("Cases", [measured_cases(measured)]),
            Section("Families", [families(cases), Lines(caveats(cases))]),
            Section("Not measured", [Lines(unmeasured(cases))]),
            Section("From kernels to the model", [explained(traced), Lines(unmapped(traced))] if traced else []),
            Section("Roofline", lambda: _rooflines(document, measured)),
            Section("Published by DeepBench", [theirs, Lines([DEFECTS])] if theirs.rows else []),
            Section("Energy and clocks", [Lines(sensed(cases))]),
        ],
        failed=any(case["status"] == "failed" for case in cases),
    )


def _rooflines(document: KernelsDocument, measured: list[KernelCase]) -> list[Block]:
    return [
        _roofline(ceiling, own)
        for ceiling in document["ceilings"]
        if (own := [case for case in measured if case["precision"] == ceiling["precision"] and case["tflops"]])
    ]


def _roofline(ceiling: Ceiling, cases: list[KernelCase]) -> Figure:
    """Operations a second over operations for each byte (Williams et al. 2009), a roof for each level of memory."""
    levels = roofs(ceiling)
    highest = ceiling["tflops"] * 1e3
    ridges = [highest / each["gbps"] for each in levels]
    x = logarithmic("FLOP/byte", [*(case["intensity"] for case in cases), *ridges])
    y = logarithmic("GFLOP/s", [*(gflops(case["tflops"]) for case in cases), highest])
    plot = Plot(f"Roofline in {ceiling['precision']}", x, y)
    for colour, (each, ridge) in enumerate(zip(levels, ridges, strict=True), start=len(BOUNDS) + 1):
        under = [x.low, min(max(ridge, x.low), x.high), x.high]
        roof = [(at, min(highest, at * each["gbps"])) for at in under]
        plot.line(roof, f"{figure(each['gbps'])} GB/s of {each['mib']:g} MiB", colour)
    for colour, bound in enumerate(BOUNDS, start=1):
        own = [case for case in cases if case["bound"] == bound]
        speeds = [gflops(case["tflops"]) for case in own]
        points = [
            (case["intensity"], speed, f"{named(case)}: {figure(speed)} GFLOP/s")
            for case, speed in zip(own, speeds, strict=True)
        ]
        plot.dots(points, f"bound by {bound}", colour)
    rows = [
        [
            named(case),
            figure(case["intensity"]),
            figure(gflops(case["tflops"])),
            case["bound"] or "-",
            share_words(case),
        ]
        for case in cases
    ]
    table = Table(["case", "FLOP/byte", "GFLOP/s", "bound", "of it"], rows)
    return Figure.of(plot, f"Roofline in {ceiling['precision']}", table, wide=True)


def records(saved: Saved) -> list[dict[str, Any]]:
    """A row for each case."""
    document = saved.document
    return [
        {
            **{key: case[key] for key in ("family", "label", "precision", "status")},
            "device": document["device"],
            "kernel_median_ms": case["ms"] and case["ms"]["median"],
            **{key: case[key] for key in ("tflops", "gbps", "bound", "bound_share", "error", "tolerance")},
            "failure": case["reason"],
        }
        for case in document["cases"]
    ]


def checks(saved: Saved) -> list[Check]:
    """Each case was measured; one that was skipped is not judged."""
    found = []
    for case in saved.document["cases"]:
        ok = None if case["status"] == "skipped" else case["status"] != "failed"
        subject = f"kernels.{case['family']}.{case['precision']}"
        found.append(Check(case["label"], ok, note=str(case["reason"] or case["status"]), subject=subject))
    return found
