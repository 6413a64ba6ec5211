"""A kernels document as it is shown: outcome, tables, sentences beside them, and a roofline for each precision.

The sentences are on ceilings, doubts, failures, energy and clocks.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import geometric_mean, quantiles
from typing import Any

from servemark.machine.cpu_time import QUIET_SHARE
from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.header import figure_of, reason_of
from servemark.results.schema.kernels import (
    Bandwidth,
    Ceiling,
    KernelCase,
    KernelsDocument,
    ProbeKey,
    Traced,
    named,
    other_cpu_shares,
    other_work,
    title,
)
from servemark.views.blocks import Article, Block, Check, Figure, Lines, Section, Table
from servemark.views.drawing import Plot, logarithmic
from servemark.views.shape import shaped

BOUNDS = ("compute", "cache", "memory", "latency")
SENSED = {"joules": "J a call", "clock_mhz": "clock in MHz"}
DEFECTS = (
    "DeepBench's figures are means without a check of the answer. Its fp16 and int8 inputs are nearly all zero, which "
    "tensor cores reward with up to 15 %."
)
MAX_FAILURES = 5
MAX_UNMAPPED = 8
PROBES: dict[ProbeKey, str] = {"product_ms": "a product took", "copy_ms": "a copy"}
MIN_PROBES = 6
"""Fewest probes from which quartiles are taken."""
STEADY_SHARE = 0.05
"""Interquartile range of a probe over its median below which the machine counts as steady."""
STEP = 1.25
"""Ratio of two bandwidths below which they are one roof."""


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
        points = [
            (case["intensity"], gflops(case["tflops"]), f"{named(case)}: {figure(gflops(case['tflops']))} GFLOP/s")
            for case in cases
            if case["bound"] == bound
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


def measured_cases(cases: Sequence[KernelCase]) -> Table:
    """A row for each measured case."""
    head = ["case", "precision", "library", "ms", "IQR", "p5", "p95", "GFLOP/s", "GB/s", "FLOP/byte", "bound", "of it"]
    return Table(head, [_cells(case) for case in cases], f"{len(cases)} cases", folded=True)


def _cells(case: KernelCase) -> list[str]:
    ms = case["ms"]
    assert ms is not None
    times = [rate(time) for time in (ms["median"], ms["iqr"], ms["p5"], ms["p95"])]
    rates = [rate(gflops(case["tflops"])) if case["flops"] else "-", rate(case["gbps"]), figure(case["intensity"])]
    times_called = f"{case['count']} x " if case["count"] > 1 else ""
    name = f"{times_called}{case['family']} {case['label']}"
    return [name, case["precision"], case["library"], *times, *rates, case["bound"] or "-", share_words(case)]


def families(cases: Sequence[KernelCase]) -> Table:
    """A row for each family in each precision: shares of the bound are geometric means."""
    rows = []
    kinds: dict[tuple[str, str, str], list[KernelCase]] = {}
    for case in cases:
        kinds.setdefault((case["family"], case["precision"], case["library"]), []).append(case)
    for kind, own in kinds.items():
        status = Counter(case["status"] for case in own)
        measured = [case for case in own if case["ms"]]
        bounds = Counter(case["bound"] for case in measured if case["bound"])
        shares = [case["bound_share"] for case in measured if case["bound_share"]]
        rows.append(
            [
                *kind,
                *(f"{status[name]}" for name in ("measured", "skipped", "failed")),
                range_of([gflops(case["tflops"]) for case in measured if case["flops"]]),
                range_of([case["gbps"] for case in measured]),
                ", ".join(f"{name} {count}" for name, count in bounds.most_common()) or "-",
                f"{geometric_mean(shares):.0%}" if shares else "-",
            ]
        )
    head = ["family", "precision", "library", "measured", "skipped", "failed", "GFLOP/s", "GB/s", "bound", "of it"]
    return Table(head, rows)


def published(cases: Sequence[KernelCase]) -> Table:
    """DeepBench's figures, each after ours."""
    rows = [
        [
            named(case),
            rate(case["ms"]["median"]) if case["ms"] else case["status"],
            rate(each["ms"]),
            f"{rate(each['rate'])} {each['unit']}",
            f"{each['hardware']}, {each['precision']}",
            each["note"],
        ]
        for case in cases
        for each in case["published"]
    ]
    return Table(["case", "ms here", "ms there", "rate there", "DeepBench's hardware", "what is known of it"], rows)


def explained(traced: Traced) -> Table:
    """Return the parts of a workload's latency, which add up to it."""
    whole, alone, mapped = traced["latency_ms"], traced["kernels_ms"], traced["mapped_ms"]
    parts = [
        (f"{traced['kernels']} kernels, each alone", alone),
        (
            "the same operators within the model, less these",
            None if mapped is None or alone is None else mapped - alone,
        ),
        ("operators of no family", traced["unmapped_ms"]),
        ("between operators: Python, dispatch, gaps", traced["between_ms"]),
        (f"{traced['workload']} at batch {traced['batch_size']}, {traced.get('engine', 'eager PyTorch')}", whole),
    ]
    rows = [[words, rate(ms), "-" if ms is None else f"{ms / whole:.0%}"] for words, ms in parts]
    return Table(["part of the latency", "ms", "share"], rows)


def share_words(case: KernelCase) -> str:
    """Format the time that the ceiling allows, as a share of the median."""
    return "-" if case["bound_share"] is None else f"{case['bound_share']:.0%}"


def gflops(tflops: float | None) -> float | None:
    """Convert what a document holds to GFLOP/s, which GB/s times FLOP/byte are."""
    return None if tflops is None else tflops * 1e3


def rate(value: float | None) -> str:
    """Format three significant digits, whatever the size."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.3g}".rstrip(".")


def range_of(values: Sequence[float | None]) -> str:
    """Return the smallest to the largest known value, or a dash."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    return rate(known[0]) if len(known) == 1 else f"{rate(min(known))} to {rate(max(known))}"


def outcome(document: KernelsDocument) -> str:
    """Count the cases by outcome."""
    status = Counter(case["status"] for case in document["cases"])
    busy = other_work(document)
    when = "" if other_cpu_shares(document["cases"]) else " before the first"
    noise = f"; other work used {busy:.0%} of the cores{when}{': times are upper bounds' if busy > QUIET_SHARE else ''}"
    done = ", ".join(f"{status[name]} {name}" for name in ("measured", "skipped", "failed"))
    cut = f", {document['planned'] - len(document['cases'])} still to come" if document["partial"] else ""
    return f"{document['planned']} cases: {done}{cut}{noise}"


def ceiling_lines(document: KernelsDocument) -> list[str]:
    """List the ceilings of each precision, the cache that these cores hold, and the parts that were not measured."""
    lines = [ceiling_words(ceiling) for ceiling in document["ceilings"]]
    reported, held = document["cache_mib"], document.get("held_mib")
    if held is not None and held != reported:
        known = "no cache" if reported is None else f"a cache of {reported:,g} MiB"
        lines.append(f"The system reports {known}; these cores were seen to hold {held:,g} MiB.")
    return [*lines, *(f"Left out of the ceilings: {words}." for words in document.get("ceilings_left_out", []))]


def ceiling_words(ceiling: Ceiling) -> str:
    """Format a precision's ceilings: "fp32: at most 92.5 GFLOP/s (gemm ...), 1.1 µs a call; 120 GB/s of 2 MiB"."""
    steps = ", ".join(f"{rate(each['gbps'])} GB/s of {each['mib']:g} MiB" for each in roofs(ceiling))
    highest = f"{rate(ceiling['tflops'] * 1e3)} GFLOP/s ({ceiling['tflops_of']})"
    words = f"{ceiling['precision']}: at most {highest}, {figure(ceiling['call_us'])} µs a call; {steps}"
    return words + _promised(ceiling) + _circumstances(ceiling)


def _circumstances(ceiling: Ceiling) -> str:
    """Format when kept ceilings were measured, and other work meanwhile: "; kept since 2026-11-23T12:00:00+00:00"."""
    busy = ceiling.get("other_cpu_share") or 0.0
    beside = f"; other work used up to {busy:.0%} of the cores meanwhile" if busy > QUIET_SHARE else ""
    return beside + (f"; kept since {ceiling.get('measured')}" if ceiling.get("reused") else "")


def _promised(ceiling: Ceiling) -> str:
    """Format a GPU's data sheet and the share reached: "; data sheet: 989,000 GFLOP/s (82 % reached), ..."."""
    reached = {"vendor_tflops": ceiling["tflops"], "vendor_gbps": ceiling["bandwidths"][-1]["gbps"]}
    units = {"vendor_tflops": (1e3, "GFLOP/s"), "vendor_gbps": (1, "GB/s")}
    known = {key: figure_of(ceiling, key) for key in units if key in ceiling}
    parts = [
        f"{rate(most * units[key][0])} {units[key][1]} ({reached[key] / most:.0%} reached)"
        for key, most in known.items()
        if most
    ]
    return f"; data sheet: {', '.join(parts)}" if parts else ""


def roofs(ceiling: Ceiling) -> list[Bandwidth]:
    """Return the bandwidths that tell levels apart: the memory's, and each that is a quarter above the next."""
    found: list[Bandwidth] = []
    for each in reversed(ceiling["bandwidths"]):
        if not found or each["gbps"] > STEP * found[-1]["gbps"]:
            found.append(each)
    return found[::-1]


def caveats(cases: Sequence[KernelCase]) -> list[str]:
    """List the remarks that a reader of the times needs: impossible times, and disturbed ones."""
    return [*above(cases), *disturbed(cases), *unsteady(cases)]


def above(cases: Sequence[KernelCase]) -> list[str]:
    """Report cases that are faster than their ceiling allows, with the possible reasons."""
    found = [case for case in cases if (case["bound_share"] or 0.0) > 1]
    if not found:
        return []
    most = max(found, key=lambda case: case["bound_share"] or 0.0)
    other = " Ceilings are PyTorch's." if any(case["library"] != "torch" for case in found) else ""
    return [
        f"{len(found)} of {len(cases)} cases lie above their ceiling, {named(most)} most ({share_words(most)}): "
        "other work slowed the ceiling, a cache held more of the tensors than of the ceiling's, "
        f"or this kernel needs less than what was counted.{other}"
    ]


def disturbed(cases: Sequence[KernelCase]) -> list[str]:
    """Report cases beside which other work ran."""
    found = [case for case in cases if (case.get("other_cpu_share") or 0.0) > QUIET_SHARE]
    if not found:
        return []
    most = max(found, key=lambda case: case.get("other_cpu_share") or 0.0)
    return [
        f"{len(found)} of {len(cases)} cases were timed while other work used more than {QUIET_SHARE:.0%} of the cores"
        f", {named(most)} beside most ({most.get('other_cpu_share'):.0%}): their times are upper bounds."
    ]


def unsteady(cases: Sequence[KernelCase]) -> list[str]:
    """Report changes of the machine itself from case to case, if they are large."""
    probes = [probe for case in cases if (probe := case.get("probe"))]
    if len(probes) < MIN_PROBES:
        return []
    parts, most = [], 0.0
    for key, words in PROBES.items():
        low, median, high = quantiles([probe[key] for probe in probes], n=4)
        most = max(most, (high - low) / median)
        parts.append(f"{words} {rate(median)} ms (IQR {(high - low) / median:.0%})")
    if most <= STEADY_SHARE:
        return []
    took = " and ".join(parts)
    return [f"The machine itself was not steady: before each case {took}. Times of single cases move as much."]


def unmeasured(cases: Sequence[KernelCase]) -> list[str]:
    """List failures by name, then the number of skipped cases for each kind of reason."""
    failed = [case for case in cases if case["status"] == "failed"]
    lines = [f"FAILED {named(case)}: {_reason(case)}" for case in failed[:MAX_FAILURES]]
    if len(failed) > MAX_FAILURES:
        lines.append(f"and {len(failed) - MAX_FAILURES} more failures, in result.json")
    kinds: dict[str, list[KernelCase]] = {}
    for case in cases:
        if case["status"] == "skipped":
            kinds.setdefault(_reason(case).partition(":")[0], []).append(case)
    for several in kinds.values():
        more = f"; and {len(several) - 1} more" if len(several) > 1 else ""
        lines.append(f"skipped {named(several[0])}: {_reason(several[0])}{more}")
    return lines


def _reason(case: KernelCase) -> str:
    return str(case.get("reason"))


def unmapped(traced: Traced) -> list[str]:
    """List operators of no family, the slowest first."""
    shown = traced["unmapped"][:MAX_UNMAPPED]
    lines = [f"no family: {each['count']} x {each['operator']}: {rate(each['ms'])} ms" for each in shown]
    rest = traced["unmapped"][MAX_UNMAPPED:]
    return [*lines, f"and {sum(each['count'] for each in rest)} calls of {len(rest)} more"] if rest else lines


def sensed(cases: Sequence[KernelCase]) -> list[str]:
    """List energy and clocks: their range over the cases, or the reason why they are unknown."""
    measured = [case for case in cases if case["ms"]]
    if not measured:
        return []
    lines = [
        f"{words}: {range_of([case[key] for case in measured])}"  # type: ignore[literal-required]
        if any(case[key] is not None for case in measured)  # type: ignore[literal-required]
        else f"{words}: not known: {reason_of(measured[0], key)}"
        for key, words in SENSED.items()
    ]
    throttled = sorted({reason for case in measured for reason in case["throttled"] or []})
    return [*lines, f"throttled: {', '.join(throttled)}"] if throttled else lines
