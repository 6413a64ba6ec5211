"""Plan of a suite: workloads, precisions and batches, and an estimate of its duration."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from servemark.documents.commands.measure import Suite
from servemark.errors import OptionError
from servemark.quantities import duration_text, figure, one_of
from servemark.repository.entry import FULL, Entry
from servemark.results.schema.suite import suite_case
from servemark.workload import Workload, get, workloads
from servemark.workload.registry import own
from servemark.workload.spec import SEPARATOR
from servemark.workload.suites import BY_NAME, ai_matrix, aibench

VARIANT = ", variant"
"""Ends the suite of a workload that is not the suite's own, but the same task with another network or other sizes."""
AI_MATRIX = "ai-matrix"
EXPORT_S = 30.0
"""The median of docs/results/zoo.txt."""
AROUND_S = 15.0
"""Overhead of a load: two processes, a server's start, the golden requests."""
SIDE, PRODUCTS = 2048, 5
"""Of the square matrices whose product is timed, and how often."""


@dataclass(frozen=True)
class Case:
    """A workload in a precision, at a batch."""

    workload: Workload
    precision: str
    batch: int

    @property
    def artifact(self) -> tuple[str, str]:
        """Return what is exported for it."""
        return self.workload.name, self.precision

    @property
    def flops(self) -> int:
        """Operations of a request."""
        return (self.workload.flops or 0) * self.batch

    def __str__(self) -> str:
        return suite_case(self.workload.name, self.precision, self.batch)


@dataclass(frozen=True)
class Plan:
    """The cases of a suite, in order, and the load of each."""

    suite: str
    engine: str
    repository: Path
    cases: list[Case]
    options: Suite

    def costs_s(self, flops_per_s: float) -> list[float]:
        """About how long each case takes (s). Warm-up and interval wait for as many requests as are in flight."""
        lacking = self._lacking()
        costs, options = [], self.options
        for number, case in enumerate(self.cases):
            requests_s = case.flops * options.concurrency / flops_per_s
            load_s = max(options.warmup_s, requests_s) + max(options.duration_s, requests_s)
            costs.append(AROUND_S + load_s + (EXPORT_S if number in lacking else 0.0))
        return costs

    def lines(self, flops_per_s: float) -> Iterator[str]:
        """Each case, with what it asks for, and last the whole."""
        costs, lacking = self.costs_s(flops_per_s), self._lacking()
        for number, (case, cost) in enumerate(zip(self.cases, costs, strict=True)):
            export = ", export first" if number in lacking else ""
            known = case.workload.flops is not None
            flops = f"{figure(case.flops / 1e9)} GFLOPs a request" if known else "FLOPs not known"
            yield f"{case}{export}: {flops}, about {duration_text(cost)}"
        yield self.whole(costs)

    def whole(self, costs: Sequence[float]) -> str:
        """Say how much there is to run, and for how long."""
        models = len({case.workload.name for case in self.cases})
        return (
            f"models: {models}, exports: {len(self._lacking())}, runs: {len(self.cases)}; "
            f"about {duration_text(sum(costs))}, or more"
        )

    def _lacking(self) -> set[int]:
        """The cases, by their places, that need an export first: one for all batches."""
        first: dict[tuple[str, str], int] = {}
        for number, case in enumerate(self.cases):
            first.setdefault(case.artifact, number)
        return {
            number
            for (name, precision), number in first.items()
            if not Entry(self.repository, name, self.engine, precision).manifest.exists()
        }


def plan(suite: str, engine: str, repository: Path, options: Suite) -> Plan:
    """Plan every workload of a suite, or those of it that --only names.

    --published takes AI Matrix's batches, in those of its precisions that the engine has and that --precision, if
    given, names. Raises OptionError.
    """
    from servers.engines import engine_names

    one_of("engine", engine, engine_names())
    if (options.published or options.precision) and suite != AI_MATRIX:
        raise OptionError("--published and --precision are of the suite ai-matrix", fix="servemark suite ai-matrix")
    workloads = chosen(suite, options.only)
    if not workloads:
        raise OptionError("there is no workload of your own", fix="servemark import FILE, or --workload-file FILE")
    cases = (
        published_cases(workloads, engine, options.precision)
        if options.published
        else [Case(workload, FULL, 1) for workload in workloads]
    )
    return Plan(suite, engine, repository, cases, options)


def chosen(suite: str, only: Sequence[str]) -> list[Workload]:
    """The workloads of a suite, or those of it that are named. Raises OptionError."""
    found = {workload.name: workload for workload in members(suite)}
    named = [one_of(f"{suite}'s workload", name.replace("/", SEPARATOR), found) for name in only]
    return [workload for name, workload in found.items() if name in (named or found)]


def members(name: str) -> list[Workload]:
    """The workloads of a suite, without the variants that stand beside them. Raises OptionError."""
    every = workloads().values()
    found = {
        "aibench": [w for w in every if any(s.startswith("AIBench") and not s.endswith(VARIANT) for s in w.suites)],
        AI_MATRIX: [w for w in every if "AI Matrix" in w.suites],
        "subset": [w for w in every if w.name in aibench.SUBSET],
        "all": list(every),
        "own": list(own().values()),
    }
    one_of("suite", name, [*found, *BY_NAME])
    # A library's model is described when its suite is asked for, and only then.
    return [get(each) for each in BY_NAME[name][1]] if name in BY_NAME else found[name]


def published_cases(chosen: Sequence[Workload], engine: str, precisions: Sequence[str]) -> list[Case]:
    """List AI Matrix's cases that the engine can run. Raises OptionError on a precision that AI Matrix does not run."""
    import exporters

    for precision in precisions:
        one_of("precision", precision, ai_matrix.CNN.precisions)
        exporters.check_precision(engine, precision)
    possible = set(precisions or exporters.precisions(engine))
    cases = [
        Case(workload, precision, batch)
        for workload in chosen
        for precision in ai_matrix.MACRO[workload.name].precisions
        if precision in possible
        for batch in ai_matrix.MACRO[workload.name].batches
    ]
    if not cases:
        names = ", ".join(workload.name for workload in chosen)
        raise OptionError(f"AI Matrix runs {names} in fp32 alone", fix="leave --precision out")
    return cases


def measured_flops_per_s() -> float:
    """Measure a large fp32 product on this CPU. Models reach less, and a GPU more."""
    matrix = np.ones((SIDE, SIDE), np.float32)
    times = []
    for _ in range(PRODUCTS):
        begun = time.perf_counter()
        matrix @ matrix
        times.append(time.perf_counter() - begun)
    return 2 * SIDE**3 / min(times)
