"""Kernels on the terminal: a line for each case, and one for each family."""

from collections import Counter
from collections.abc import Sequence
from statistics import geometric_mean

from rich.console import Console
from rich.table import Table

from servemark.report.words import figure
from servemark.results.schema.kernels import Ceiling, KernelCase, KernelsDocument

LEFT = ("case", "precision", "bound", "family", "")
MAX_FAILURES = 5


def render_kernels(document: KernelsDocument, console: Console) -> None:
    """Print cases, a summary for each family, and what was not measured."""
    cases = document["cases"]
    console.print(
        f"{document['suite']} on {document['device']}, {document['environment']['cpu']}, "
        f"{document['threads']} threads; {document['library']}; cache {document['cache']}"
    )
    for ceiling in document["ceilings"]:
        console.print(ceiling_words(ceiling))
    measured = [case for case in cases if case["ms"]]
    if measured:
        console.print(_cases(measured))
        console.print()
    console.print(_families(cases))
    for words in _unmeasured(cases):
        console.print(words)
    if document["partial"]:
        console.print(f"not whole: {len(cases)} of {document['planned']} cases")


def ceiling_words(ceiling: Ceiling) -> str:
    """The ceilings of a precision: "fp32: at most 0.0925 TFLOP/s (gemm ...), 18.2 GB/s (memory ...), 1.1 us a call"."""
    return (
        f"{ceiling['precision']}: at most {_rate(ceiling['tflops'])} TFLOP/s ({ceiling['tflops_of']}), "
        f"{_rate(ceiling['gbps'])} GB/s ({ceiling['gbps_of']}), {figure(ceiling['call_us'])} µs a call"
    )


def _cases(cases: Sequence[KernelCase]) -> Table:
    columns = ("case", "precision", "ms", "IQR", "p5", "p95", "TFLOP/s", "GB/s", "FLOP/byte", "bound", "of it")
    table = _table(columns)
    for case in cases:
        ms = case["ms"]
        assert ms is not None
        table.add_row(
            f"{case['family']} {case['label']}",
            case["precision"],
            _rate(ms["median"]),
            _rate(ms["iqr"]),
            _rate(ms["p5"]),
            _rate(ms["p95"]),
            _rate(case["tflops"]) if case["flops"] else "-",
            _rate(case["gbps"]),
            figure(case["intensity"]),
            case["bound"] or "-",
            _share(case["bound_share"]),
        )
    return table


def _families(cases: Sequence[KernelCase]) -> Table:
    table = _table(("family", "precision", "measured", "skipped", "failed", "TFLOP/s", "GB/s", "bound", "of it"))
    for family, precision in dict.fromkeys((case["family"], case["precision"]) for case in cases):
        own = [case for case in cases if (case["family"], case["precision"]) == (family, precision)]
        status = Counter(case["status"] for case in own)
        measured = [case for case in own if case["ms"]]
        bounds = Counter(case["bound"] for case in measured if case["bound"])
        table.add_row(
            family,
            precision,
            *(f"{status[name]}" for name in ("measured", "skipped", "failed")),
            _range([case["tflops"] for case in measured if case["flops"]]),
            _range([case["gbps"] for case in measured]),
            ", ".join(f"{name} {count}" for name, count in bounds.most_common()) or "-",
            _share(_mean([case["bound_share"] for case in measured])),
        )
    return table


def _unmeasured(cases: Sequence[KernelCase]) -> list[str]:
    """Failures by name, then how many were skipped for each kind of reason."""
    failed = [case for case in cases if case["status"] == "failed"]
    lines = [f"FAILED {_name(case)}: {_reason(case)}" for case in failed[:MAX_FAILURES]]
    if len(failed) > MAX_FAILURES:
        lines.append(f"and {len(failed) - MAX_FAILURES} more failures, in result.json")
    kinds: dict[str, list[KernelCase]] = {}
    for case in cases:
        if case["status"] == "skipped":
            kinds.setdefault(_reason(case).partition(":")[0], []).append(case)
    for several in kinds.values():
        more = f"; and {len(several) - 1} more" if len(several) > 1 else ""
        lines.append(f"skipped {_name(several[0])}: {_reason(several[0])}{more}")
    return lines


def _name(case: KernelCase) -> str:
    return f"{case['family']} {case['label']} {case['precision']}"


def _reason(case: KernelCase) -> str:
    return str(case.get("reason"))


def _table(columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="left" if column in LEFT else "right", overflow="fold")
    return table


def _rate(value: float | None) -> str:
    """Three significant digits, whatever the size."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:#.3g}".rstrip(".")


def _range(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    return _rate(known[0]) if len(known) == 1 else f"{_rate(min(known))} to {_rate(max(known))}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value]
    return geometric_mean(known) if known else None
