"""Tables of a kernels document: their columns, and a row for each case, family, or part of a latency."""

from collections import Counter
from collections.abc import Sequence
from statistics import geometric_mean

from servemark.quantities import figure
from servemark.results.schema.kernels import KernelCase, Traced, named
from servemark.views.blocks import Table


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
