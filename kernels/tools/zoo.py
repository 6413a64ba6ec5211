"""Kernels of the zoo: their share of each model's latency, and their distance to DeepBench's cases.

    python -m kernels.tools.zoo explained [--sizes tiny] > docs/results/kernels_of_models.txt
    python -m kernels.tools.zoo coverage [--sizes full] > docs/results/deepbench_coverage.txt

Each model runs in a process of its own. `explained` times each kernel of a model for --seconds, after its latency.
`coverage` runs each model once and times nothing.
"""

import argparse
import math
import sys
from collections.abc import Collection, Iterator, Sequence
from importlib import metadata

from kernels.families.convolution import Convolution
from kernels.families.fully_connected import FullyConnected
from kernels.families.gemm import Gemm
from kernels.families.recurrent import Recurrent
from kernels.measurement.case import Case, Method
from kernels.measurement.device import Device
from kernels.measurement.kernel import Kernel
from kernels.measurement.measure import measure
from kernels.measurement.sensors import busy_share
from kernels.suites import suites
from kernels.tracing.workload import Trace, trace_apart
from servemark.errors import ServemarkError
from servemark.machine.environment import collect
from servemark.machine.own_process import ERRORS, OwnProcess
from servemark.workload import workloads

NEAR = (0.0, 0.5, 1.0, 2.0)
"""Distances, as powers of two."""
FAR = math.inf
CLAIM = "DeepBench is said to have most kernels of MLPerf's applications. Here are the models of AIBench and AI Matrix:"
Sizes = tuple[float, ...]
Counted = tuple[int, float | None, int]
"""Calls of a kernel, their distance, which is None where DeepBench has nothing of its kind, and their FLOPs."""


def traces(sizes: str, batch: int, only: Collection[str], *, timed: bool) -> Iterator[tuple[str, Trace | str]]:
    """Yield the trace of each workload, or of its tiny variant, or the reason why it has none.

    `only` those of these names, where there are any.
    """
    device = Device.named("cpu")
    for name, full in workloads().items():
        workload = full if sizes == "full" else full.tiny
        if workload is None or (only and name not in only):
            continue
        print(f"tracing {workload.name}", file=sys.stderr, flush=True)
        try:
            yield workload.name, trace_apart(workload.name, batch, device, timed=timed)
        except ServemarkError as error:
            yield workload.name, error.what


def explained(sizes: str, batch: int, only: Collection[str], seconds: float, limit_s: float) -> Iterator[str]:
    """The page of latencies and their parts."""
    method = Method(Device.named("cpu"), budget_s=seconds, limit_s=limit_s)
    timed = 0
    around = collect()
    yield "# From kernels to models\n"
    yield f"{around['cpu']}, {around['cores']} cores; torch {metadata.version('torch')}; commit {around['git_commit']}."
    chosen = f" --only {' '.join(only)}" if only else ""
    command = f"explained --sizes {sizes} --batch {batch} --seconds {seconds:g}{chosen}"
    yield f"Made by `python -m kernels.tools.zoo {command}`.\n"
    yield f"- Each kernel was timed once for each model that has it, for {seconds:g} s, hot, just after the latency."
    yield "- [What the columns mean](../guides/kernels.md#the-kernels-of-a-workload), as shares of the latency."
    yield "- More than 100 %: the machine changed in between, or the kernels are so small that a call costs most.\n"
    yield "| workload | latency ms | kernels | alone | less alone | no family | between | longest of no family |"
    yield "|---|--:|--:|--:|--:|--:|--:|---|"
    with OwnProcess() as process:
        for name, trace in traces(sizes, batch, only, timed=True):
            if isinstance(trace, str):
                yield f"| {name} | skipped: {trace} | | | | | | |"
                continue
            # Those that another model has too are timed again: the machine may have changed since.
            yield _row(name, trace, [_median_ms(process, case, method) for case in trace.cases])
            timed += len(trace.cases)
    yield f"\n{timed} kernels. Other work used {busy_share():.0%} of the cores at the end."


def _median_ms(process: OwnProcess, case: Case, method: Method) -> float | None:
    try:
        found = process.run(measure, case, method, None, timeout_s=method.limit_s + 60)
    except ERRORS:
        return None
    return found["ms"]["median"] if found["ms"] else None


def _row(name: str, trace: Trace, times: Sequence[float | None]) -> str:
    traced = trace.traced
    whole, mapped = traced["latency_ms"], traced["mapped_ms"]
    alone = None
    if None not in times:
        alone = sum(case.count * (ms or 0.0) for case, ms in zip(trace.cases, times, strict=True))
    longer = None if alone is None or mapped is None else mapped - alone
    parts = [alone, longer, traced["unmapped_ms"], traced["between_ms"]]
    shares = " | ".join("-" if ms is None else f"{ms / whole:z.0%}" for ms in parts)
    longest = ", ".join(f"{each['count']} x `{each['operator']}`" for each in traced["unmapped"][:2])
    return f"| {name} | {whole:.4g} | {traced['kernels']} | {shares} | {longest or '-'} |"


def coverage(sizes: str, batch: int, only: Collection[str] = ()) -> Iterator[str]:
    """The page of distances to DeepBench."""
    deepbench = [case.kernel for name, suite in suites().items() if name.startswith("deepbench") for case in suite()]
    skipped, total = list[str](), list[Counted]()
    yield "# The zoo's kernels and DeepBench's\n"
    chosen = f" --only {' '.join(only)}" if only else ""
    yield f"Made by `python -m kernels.tools.zoo coverage --sizes {sizes} --batch {batch}{chosen}`. Nothing is timed.\n"
    yield f"{CLAIM}\n"
    yield "- The distance of two kernels is the largest |log2| of the ratio of a size: 1 is a factor of 2 in any size."
    yield "- Sizes are m, n, k; or n, c, k, input, filter, stride; or hidden, batch, steps. The same kernel is at 0."
    yield "- A product's m and n may change places. A fully connected layer is a product."
    yield "- Batched products and grouped, dilated, 1-D and 3-D convolutions are infinitely far: DeepBench has none."
    yield "- `calls` are those of operators that move data. `of its kinds`: products, convolutions, recurrent layers.\n"
    yield (
        "| workload | calls | of its kinds | FLOPs of its kinds | "
        + " | ".join(f"within {near:g}" for near in NEAR)
        + " | nearest | farthest |"
    )
    yield "|---|--:|--:|--:|" + "--:|" * (len(NEAR) + 2)
    for name, trace in traces(sizes, batch, only, timed=False):
        if isinstance(trace, str):
            skipped.append(f"- {name} was skipped: {trace}")
            continue
        own: list[Counted] = [
            (case.count, distance(case.kernel, deepbench), case.count * case.kernel.flops()) for case in trace.cases
        ]
        own += [(each["count"], None, 0) for each in trace.traced["unmapped"]]
        yield f"| {name} | {_counts(own)} |"
        total += own
    yield f"| **all** | {_counts(total)} |"
    yield from ["", *skipped] if skipped else []
    yield "\n`within D` is the share of the FLOPs of its kinds. Recurrent layers count by DeepBench's rule."
    if any(apart is not None for _, apart, _ in total):
        same, near = _within(total, 0.0), _within(total, 1.0)
        yield f"Of all these FLOPs {same:.0%} are in kernels of DeepBench, and {near:.0%} within a factor of 2 of one."


def _within(found: Sequence[Counted], distance: float) -> float:
    """Share of the FLOPs of DeepBench's kinds that lie within a distance."""
    whole = sum(flops for _, apart, flops in found if apart is not None)
    return sum(flops for _, apart, flops in found if apart is not None and apart <= distance) / whole


def _counts(found: Sequence[Counted]) -> str:
    """Return the cells of a row."""
    calls, kinds = sum(count for count, _, _ in found), [each for each in found if each[1] is not None]
    flops = sum(each for _, _, each in kinds)
    cells = [f"{calls:,}", f"{sum(count for count, _, _ in kinds) / calls:.0%}" if calls else "-"]
    cells.append(f"{flops / 1e9:,.3g} G")
    if not flops:
        return " | ".join([*cells, *["-"] * (len(NEAR) + 2)])
    cells += [f"{_within(found, near):.0%}" for near in NEAR]
    distances = [apart for _, apart, _ in kinds if apart is not None]
    nearest = "none" if min(distances) == FAR else f"{min(distances):.2f}"
    return " | ".join([*cells, nearest, f"{max(distances):.2f}"])


def distance(kernel: Kernel, others: Sequence[Kernel]) -> float | None:
    """Return the distance to the nearest of others: inf if none has its form, None if none is of its kind."""
    kind, form, ways = _place(kernel)
    if kind is None:
        return None
    found = [
        max(abs(math.log2(own / their)) for own, their in zip(sizes, theirs, strict=True))
        for other_kind, other_form, (theirs, *_) in map(_place, others)
        if (other_kind, other_form) == (kind, form)
        for sizes in ways
    ]
    return min(found, default=FAR)


def _place(kernel: Kernel) -> tuple[str | None, tuple[object, ...], list[Sizes]]:
    """Return a kernel's kind, its form, which must be equal, and its sizes, in each order that means the same."""
    match kernel:
        case FullyConnected():
            return _place(Gemm(m=kernel.outputs, n=kernel.batch, k=kernel.inputs))
        case Gemm():
            ways: list[Sizes] = [(kernel.m, kernel.n, kernel.k), (kernel.n, kernel.m, kernel.k)]
            return "gemm", (kernel.batch, kernel.groups), ways
        case Convolution():
            form = (len(kernel.size), kernel.groups, set(kernel.steps()) == {1}, kernel.direction)
            sizes = (kernel.n, kernel.c, kernel.k, *kernel.size, *kernel.filter, *kernel.stride)
            return "convolution", form, [sizes]
        case Recurrent():
            return "recurrent", (kernel.cell, kernel.direction), [(kernel.hidden, kernel.batch, kernel.timesteps)]
    return None, (), [()]


def main() -> None:
    """Print a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", choices=("explained", "coverage"))
    parser.add_argument("--sizes", choices=("tiny", "full"), default="tiny")
    parser.add_argument("--only", nargs="+", default=(), metavar="WORKLOAD")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--limit", type=float, default=60.0)
    options = parser.parse_args()
    if options.page == "explained":
        lines = explained(options.sizes, options.batch, options.only, options.seconds, options.limit)
    else:
        lines = coverage(options.sizes, options.batch, options.only)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
