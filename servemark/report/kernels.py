"""Kernels in words and tables: a line for each case, and one for each family. For the terminal, and for a page."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, geometric_mean, quantiles

from rich.console import Console
from rich.table import Table

from servemark.machine.cpu_time import QUIET_SHARE
from servemark.report.words import figure
from servemark.results.schema.header import figure_of, reason_of
from servemark.results.schema.kernels import Bandwidth, Ceiling, KernelCase, KernelsDocument, ProbeKey, Traced

COLUMNS = ("case", "precision", "library", "ms", "IQR", "p5", "p95", "TFLOP/s", "GB/s", "FLOP/byte", "bound", "of it")
FAMILY_COLUMNS = (
    "family",
    "precision",
    "library",
    "measured",
    "skipped",
    "failed",
    "TFLOP/s",
    "GB/s",
    "bound",
    "of it",
)
LEFT = (
    "DeepBench's hardware",
    "what is known of it",
    "case",
    "precision",
    "library",
    "bound",
    "family",
    "part of the latency",
)
SENSED = {"joules": "J a call", "clock_mhz": "clock in MHz"}
PUBLISHED_COLUMNS = ("case", "ms here", "ms there", "rate there", "DeepBench's hardware", "what is known of it")
DEFECTS = (
    "DeepBench's figures are means without a check of the answer. Its fp16 and int8 inputs are nearly all zero, which "
    "tensor cores reward with up to 15 %."
)
EXPLAINED_COLUMNS = ("part of the latency", "ms", "share")
MAX_FAILURES = 5
MAX_UNMAPPED = 8
PROBES: dict[ProbeKey, str] = {"product_ms": "a product took", "copy_ms": "a copy"}
MIN_PROBES = 6
"""Below so many there are no quartiles worth the name."""
STEADY_SHARE = 0.05
"""Interquartile range of a probe over its median that is nothing to speak of."""
STEP = 1.25
"""Bandwidths that differ by less are one roof."""


def render_kernels(document: KernelsDocument, console: Console) -> None:
    """Print cases, a summary for each family, and what was not measured."""
    console.print(title(document))
    for words in ceiling_lines(document):
        console.print(words)
    measured = [case for case in document["cases"] if case["ms"]]
    if measured:
        console.print(_table(COLUMNS, [cells(case) for case in measured]))
        console.print()
    console.print(_table(FAMILY_COLUMNS, family_rows(document["cases"])))
    for words in [*caveats(document["cases"]), *unmeasured(document["cases"])]:
        console.print(words)
    if document["traced"]:
        console.print()
        console.print(_table(EXPLAINED_COLUMNS, explained_rows(document["traced"])))
        for words in unmapped(document["traced"]):
            console.print(words)
    if rows := published_rows(document["cases"]):
        console.print()
        console.print(_table(PUBLISHED_COLUMNS, rows))
        console.print(DEFECTS)
    for words in sensed(document["cases"]):
        console.print(words)
    console.print(outcome(document))


def published_rows(cases: Sequence[KernelCase]) -> list[list[str]]:
    """DeepBench's figures, each after ours."""
    return [
        [
            named(case),
            _rate(case["ms"]["median"]) if case["ms"] else case["status"],
            _rate(each["ms"]),
            f"{_rate(each['rate'])} {each['unit']}",
            f"{each['hardware']}, {each['precision']}",
            each["note"],
        ]
        for case in cases
        for each in case["published"]
    ]


def sensed(cases: Sequence[KernelCase]) -> list[str]:
    """Energy and clocks: their range over the cases, or why there is none."""
    measured = [case for case in cases if case["ms"]]
    if not measured:
        return []
    lines = [
        f"{words}: {_range([case[key] for case in measured])}"  # type: ignore[literal-required]
        if any(case[key] is not None for case in measured)  # type: ignore[literal-required]
        else f"{words}: not known: {reason_of(measured[0], key)}"
        for key, words in SENSED.items()
    ]
    throttled = sorted({reason for case in measured for reason in case["throttled"] or []})
    return [*lines, f"throttled: {', '.join(throttled)}"] if throttled else lines


def title(document: KernelsDocument) -> str:
    """Return the title: "quick on cpu, AMD EPYC, 2 threads; torch 2.15.0; cache hot"."""
    where = (
        f"{document['suite']} on {document['device']}, {document['environment']['cpu']}, {document['threads']} threads"
    )
    return f"{where}; {document['library']}; cache {document['cache']}"


def other_work(document: KernelsDocument) -> float:
    """Share of the cores that other work used: before the first case, or meanwhile on average, whichever is more."""
    return max(document["busy_share"], fmean(_taken(document["cases"]) or [0.0]))


def disturbed(cases: Sequence[KernelCase]) -> list[str]:
    """Cases beside which other work ran, and what that means."""
    found = [case for case in cases if (case.get("taken_share") or 0.0) > QUIET_SHARE]
    if not found:
        return []
    most = max(found, key=lambda case: case.get("taken_share") or 0.0)
    return [
        f"{len(found)} of {len(cases)} cases were timed while other work used more than {QUIET_SHARE:.0%} of the cores"
        f", {named(most)} beside most ({most.get('taken_share'):.0%}): their times are upper bounds."
    ]


def unsteady(cases: Sequence[KernelCase]) -> list[str]:
    """Report changes of the machine itself from case to case, if they are more than small."""
    probes = [probe for case in cases if (probe := case.get("probe"))]
    if len(probes) < MIN_PROBES:
        return []
    parts, most = [], 0.0
    for key, words in PROBES.items():
        low, median, high = quantiles([probe[key] for probe in probes], n=4)
        most = max(most, (high - low) / median)
        parts.append(f"{words} {_rate(median)} ms (IQR {(high - low) / median:.0%})")
    if most <= STEADY_SHARE:
        return []
    took = " and ".join(parts)
    return [f"The machine itself was not steady: before each case {took}. Times of single cases move as much."]


def _taken(cases: Sequence[KernelCase]) -> list[float]:
    return [share for case in cases if (share := case.get("taken_share")) is not None]


def outcome(document: KernelsDocument) -> str:
    """Count the cases by outcome."""
    status = Counter(case["status"] for case in document["cases"])
    busy = other_work(document)
    when = "" if _taken(document["cases"]) else " before the first"
    noise = f"; other work used {busy:.0%} of the cores{when}{': times are upper bounds' if busy > QUIET_SHARE else ''}"
    done = ", ".join(f"{status[name]} {name}" for name in ("measured", "skipped", "failed"))
    cut = f", {document['planned'] - len(document['cases'])} still to come" if document["partial"] else ""
    return f"{document['planned']} cases: {done}{cut}{noise}"


def ceiling_lines(document: KernelsDocument) -> list[str]:
    """The ceilings of each precision, what these cores hold of the reported cache, and what was not measured."""
    lines = [ceiling_words(ceiling) for ceiling in document["ceilings"]]
    reported, held = document["cache_mib"], document.get("held_mib")
    if held is not None and held != reported:
        known = "no cache" if reported is None else f"a cache of {reported:,g} MiB"
        lines.append(f"The system reports {known}; these cores were seen to hold {held:,g} MiB.")
    return [*lines, *(f"Left out of the ceilings: {words}." for words in document.get("ceilings_left_out", []))]


def ceiling_words(ceiling: Ceiling) -> str:
    """The ceilings of a precision: "fp32: at most 0.0925 TFLOP/s (gemm ...), 1.1 µs a call, 120 GB/s of 2 MiB, ..."."""
    steps = ", ".join(f"{_rate(each['gbps'])} GB/s of {each['mib']:g} MiB" for each in roofs(ceiling))
    highest = f"{_rate(ceiling['tflops'])} TFLOP/s ({ceiling['tflops_of']})"
    words = f"{ceiling['precision']}: at most {highest}, {figure(ceiling['call_us'])} µs a call; {steps}"
    return words + _promised(ceiling) + _circumstances(ceiling)


def _circumstances(ceiling: Ceiling) -> str:
    """Since when they are kept, and whether other work ran beside: "; kept since 2026-11-23T12:00:00+00:00"."""
    busy = ceiling.get("taken_share") or 0.0
    beside = f"; other work used up to {busy:.0%} of the cores meanwhile" if busy > QUIET_SHARE else ""
    return beside + (f"; kept since {ceiling.get('measured')}" if ceiling.get("reused") else "")


def _promised(ceiling: Ceiling) -> str:
    """Format a GPU's data sheet and the share reached: "; data sheet: 989 TFLOP/s (82 % reached), ..."."""
    reached = {"vendor_tflops": ceiling["tflops"], "vendor_gbps": ceiling["bandwidths"][-1]["gbps"]}
    units = {"vendor_tflops": "TFLOP/s", "vendor_gbps": "GB/s"}
    known = {key: figure_of(ceiling, key) for key in units if key in ceiling}
    parts = [f"{_rate(most)} {units[key]} ({reached[key] / most:.0%} reached)" for key, most in known.items() if most]
    return f"; data sheet: {', '.join(parts)}" if parts else ""


def roofs(ceiling: Ceiling) -> list[Bandwidth]:
    """The bandwidths that tell levels apart: the memory's, and each that is a quarter above the next."""
    found: list[Bandwidth] = []
    for each in reversed(ceiling["bandwidths"]):
        if not found or each["gbps"] > STEP * found[-1]["gbps"]:
            found.append(each)
    return found[::-1]


def cells(case: KernelCase) -> list[str]:
    """A measured case's row."""
    ms = case["ms"]
    assert ms is not None
    times = [_rate(time) for time in (ms["median"], ms["iqr"], ms["p5"], ms["p95"])]
    rates = [_rate(case["tflops"]) if case["flops"] else "-", _rate(case["gbps"]), figure(case["intensity"])]
    times_called = f"{case['count']} x " if case["count"] > 1 else ""
    name = f"{times_called}{case['family']} {case['label']}"
    return [name, case["precision"], case["library"], *times, *rates, case["bound"] or "-", share_words(case)]


def explained_rows(traced: Traced) -> list[list[str]]:
    """The parts of a workload's latency, which are its whole."""
    whole, alone, mapped = traced["latency_ms"], traced["kernels_ms"], traced["mapped_ms"]
    parts = [
        (f"{traced['kernels']} kernels, each alone", alone),
        ("the same operators within the model, less these", _less(mapped, alone)),
        ("operators of no family", traced["unmapped_ms"]),
        ("between operators: Python, dispatch, gaps", traced["between_ms"]),
        (f"{traced['workload']} at batch {traced['batch_size']}, {traced.get('engine', 'eager PyTorch')}", whole),
    ]
    return [[words, _rate(ms), "-" if ms is None else f"{ms / whole:.0%}"] for words, ms in parts]


def unmapped(traced: Traced) -> list[str]:
    """Operators of no family in words, those that take longest first."""
    shown = traced["unmapped"][:MAX_UNMAPPED]
    lines = [f"no family: {each['count']} x {each['operator']}: {_rate(each['ms'])} ms" for each in shown]
    rest = traced["unmapped"][MAX_UNMAPPED:]
    return [*lines, f"and {sum(each['count'] for each in rest)} calls of {len(rest)} more"] if rest else lines


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def family_rows(cases: Sequence[KernelCase]) -> list[list[str]]:
    """A row for each family in each precision: shares of the bound are geometric means."""
    rows = []
    kinds: dict[tuple[str, str, str], list[KernelCase]] = {
        (case["family"], case["precision"], case["library"]): [] for case in cases
    }
    for case in cases:
        kinds[case["family"], case["precision"], case["library"]].append(case)
    for kind, own in kinds.items():
        status = Counter(case["status"] for case in own)
        measured = [case for case in own if case["ms"]]
        bounds = Counter(case["bound"] for case in measured if case["bound"])
        shares = [case["bound_share"] for case in measured if case["bound_share"]]
        rows.append(
            [
                *kind,
                *(f"{status[name]}" for name in ("measured", "skipped", "failed")),
                _range([case["tflops"] for case in measured if case["flops"]]),
                _range([case["gbps"] for case in measured]),
                ", ".join(f"{name} {count}" for name, count in bounds.most_common()) or "-",
                f"{geometric_mean(shares):.0%}" if shares else "-",
            ]
        )
    return rows


def caveats(cases: Sequence[KernelCase]) -> list[str]:
    """List the remarks that a reader of the times needs: impossible times, and disturbed ones."""
    return [*above(cases), *disturbed(cases), *unsteady(cases)]


def above(cases: Sequence[KernelCase]) -> list[str]:
    """Cases that are faster than their ceiling allows, and what that can mean."""
    found = [case for case in cases if (case["bound_share"] or 0.0) > 1]
    if not found:
        return []
    most = max(found, key=lambda case: case["bound_share"] or 0.0)
    other = " Ceilings are PyTorch's." if any(case["library"] != "torch" for case in found) else ""
    return [
        f"{len(found)} of {len(cases)} cases lie above their ceiling, {named(most)} most ({share_words(most)}): "
        f"the ceiling was measured beside other work, or this kernel needs less than what was counted.{other}"
    ]


def unmeasured(cases: Sequence[KernelCase]) -> list[str]:
    """Failures by name, then how many were skipped for each kind of reason."""
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


def named(case: KernelCase) -> str:
    """A case in words."""
    words = f"{case['family']} {case['label']} {case['precision']}"
    return words if case["library"] == "torch" else f"{words} {case['library']}"


def share_words(case: KernelCase) -> str:
    """The time that the ceiling allows, as a share of the median."""
    return "-" if case["bound_share"] is None else f"{case['bound_share']:.0%}"


def _reason(case: KernelCase) -> str:
    return str(case.get("reason"))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="left" if column in LEFT else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _rate(value: float | None) -> str:
    """Three significant digits, whatever the size."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.3g}".rstrip(".")


def _range(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    return _rate(known[0]) if len(known) == 1 else f"{_rate(min(known))} to {_rate(max(known))}"
