"""A whole suite unattended: its plan, its cases past any workload that fails, and one table at the end."""

import functools
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from loadgen.load.load_config import LoadConfig
from servemark import interrupts
from servemark.campaign import Campaign, Turn
from servemark.documents.commands.measure import Suite
from servemark.documents.load import ClosedLoop
from servemark.documents.request import RunRequest, changed
from servemark.errors import OptionError
from servemark.figures.registry import count_of, value_of
from servemark.machine.own_process import ERRORS, a_command, apart, words
from servemark.output import ERRORS as SAY_ERRORS
from servemark.output import SAYS, note
from servemark.paths import resumed
from servemark.quantities import duration_text, figure, one_of
from servemark.repository.entry import FULL, Entry
from servemark.results import directory as results
from servemark.results.schema.header import campaign_opening
from servemark.results.schema.run import Result
from servemark.results.schema.suite import SuiteDocument, SuiteRow, not_reached, suite_case
from servemark.results.verdict import broken, failed_constraints, of_the_server, said
from servemark.runs.locust_process import drive
from servemark.runs.server import server_for
from servemark.workload import Workload, get, workloads
from servemark.workload.registry import own
from servemark.workload.spec import SEPARATOR
from servemark.workload.suites import BY_NAME, ai_matrix, aibench, labels_of

EXPORT_TIMEOUT_S = 1800
RUN_TIMEOUT_S = 900
REQUEST_TIMEOUT_S = 300
"""The heaviest models take tens of seconds for a request on two cores."""
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

    options: Suite
    cases: list[Case]

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

    def entry(self, case: Case) -> Entry:
        """The entry of a case."""
        return Entry(self.options.model_repository, case.workload.name, self.options.engine, case.precision)

    def _lacking(self) -> set[int]:
        """The cases, by their places, that need an export first: one for all batches."""
        first: dict[tuple[str, str], int] = {}
        for number, case in enumerate(self.cases):
            first.setdefault(case.artifact, number)
        return {number for number in first.values() if not self.entry(self.cases[number]).manifest.exists()}


def plan(options: Suite) -> Plan:
    """Plan every workload of a suite, or those of it that --only names.

    --published takes AI Matrix's batches, in those of its precisions that the engine has and that --precision, if
    given, names. Raises OptionError.
    """
    from servers.engines import engine_names

    suite, engine = options.name, options.engine
    one_of("engine", engine, engine_names())
    if (options.published or options.precision) and suite != AI_MATRIX:
        raise OptionError("--published and --precision are of the suite ai-matrix", fix="servemark suite ai-matrix")
    workloads = chosen(suite, options.only)
    cases = (
        published_cases(workloads, engine, options.precision)
        if options.published
        else [Case(workload, FULL, 1) for workload in workloads]
    )
    return Plan(options, cases)


def chosen(suite: str, only: Sequence[str]) -> list[Workload]:
    """The workloads of a suite, or those of it that are named. Raises OptionError."""
    found = {workload.name: workload for workload in members(suite)}
    if not found:
        raise OptionError("there is no workload of your own", fix="servemark import FILE, or --workload-file FILE")
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
        # A library's model that another suite names is known since that suite was listed.
        "own": [workload for name, workload in own().items() if not labels_of(name)],
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


OnRow = Callable[[Path, SuiteDocument], None]
"""Called after each row, and at the end, with the result directory and the document so far."""


def run_suite(plan: Plan, on_row: OnRow = lambda *_: None) -> tuple[Path, SuiteDocument]:
    """Export and load every case of a plan; return the result directory and the document.

    suite.json is complete after each row, also after Ctrl-C, which raises KeyboardInterrupt. To resume a directory
    makes the cases that it lacks, failed ones among them. With --remove an exported model is removed after its last
    case. Raises ResultError, OptionError.
    """
    options = plan.options
    resume = resumed(options.resume)
    directory = resume or results.new_directory(options.out, f"suite-{options.name}")
    document: SuiteDocument = {
        **campaign_opening(),
        "kind": "suite",
        "suite": options.name,
        "engine": options.engine,
        "concurrency": options.concurrency,
        "duration_s": options.duration_s,
        "warmup_s": options.warmup_s,
        "published": options.published,
        "rows": [],
    }

    def write(partial: str | None) -> None:
        campaign.mark(document, partial)
        results.write_atomically(directory / "suite.json", results.to_json(document))
        on_row(directory, document)

    refused: dict[tuple[str, str], str] = {}
    turns = [
        Turn(str(case), functools.partial(_row, case, plan, directory, refused), cost)
        for case, cost in zip(plan.cases, plan.costs_s(measured_flops_per_s()), strict=True)
    ]
    note(plan.whole([turn.cost_s for turn in turns]))
    asked = {**document, "cases": [turn.name for turn in turns]}
    with Campaign(directory, asked, write, resume=bool(resume)) as campaign:
        campaign.expect(turn.cost_s for turn in turns)
        made = campaign.turns(turns, SuiteRow, line, lasts=lambda row: row["failure"] is None)
        for number, ((_, row), case) in enumerate(zip(made, plan.cases, strict=True), start=1):
            document["rows"].append(row)
            if options.remove and not any(each.artifact == case.artifact for each in plan.cases[number:]):
                shutil.rmtree(plan.entry(case).folder, ignore_errors=True)
    return directory, document


def line(row: SuiteRow) -> str:
    """Say how a case came out."""
    if row["failure"]:
        return f"FAILED  {row['failure']}"
    return f"{row['verdict']}  {row['requests']:,} requests, {figure(row['inferences_per_s'])} inferences/s"


def _row(case: Case, plan: Plan, directory: Path, refused: dict[tuple[str, str], str]) -> SuiteRow:
    """Export and run one workload, each in a process of its own: its memory ends with it, and so does its crash."""
    workload, name, options = case.workload, case.workload.name, plan.options
    gflops = None if workload.flops is None else workload.flops / 1e9
    row = not_reached(name, workload.parameters, gflops, case.precision, case.batch)
    if case.artifact in refused:  # at another batch, which the export does not know of
        return {**row, "failure": refused[case.artifact]}
    from exporters.pipeline.export import Task, export_isolated

    try:
        task = Task(name, options.engine, case.precision, options.model_repository, force=False)
        exported = export_isolated(task, EXPORT_TIMEOUT_S)
    except ERRORS as error:
        refused[case.artifact] = failure = f"export: {words(error)}"
        return {**row, "failure": failure}
    row["export_s"], row["peak_rss_mib"] = exported.manifest["seconds"], exported.manifest["peak_rss_mib"]
    row["export_up_to_date"], row["busy_share"] = exported.up_to_date, psutil.cpu_percent(interval=1.0) / 100
    load = ClosedLoop(concurrency=options.concurrency, duration_s=options.duration_s, warmup=options.warmup_s)
    asked = {"engine": options.engine, "precision": case.precision, "batch_size": case.batch}
    try:
        return _measured(row, load_apart(name, load, options.model_repository, directory, **asked))
    except ERRORS as error:
        return {**row, "failure": f"run: {words(error)}"}


def load_apart(workload: str, load: ClosedLoop, repository: Path, out: Path, **more: object) -> Result:
    """Load a model of a repository at a server of its own, in a process of its own; the run's directory is in `out`.

    `more` are other fields of the request, its engine among them. Raises Ended, ServemarkError, NoResultError,
    KeyboardInterrupt.
    """
    request = changed(
        RunRequest(workload=workload, load=load),
        model_repository=str(repository),
        out=str(out),
        request_timeout_s=REQUEST_TIMEOUT_S,
        **more,
    )
    return apart(_load, request, timeout_s=RUN_TIMEOUT_S, begin=_begin)


def _begin() -> None:
    """Begin like a command that is watched by the one that has started it, and print errors alone."""
    os.environ |= {interrupts.WATCHER: str(os.getppid()), SAYS: SAY_ERRORS}
    a_command()


def _load(request: RunRequest) -> Result:
    """Load the model in this process. Raises ServemarkError, NoResultError."""
    with server_for([LoadConfig.of(request)]) as [served]:
        return drive(served)


def _measured(row: SuiteRow, result: Result) -> SuiteRow:
    """The row with what its run measured."""
    failed = failed_constraints(result["verdict"])
    unusable = {*of_the_server(failed), *broken(failed)}
    return {
        **row,
        "measured_s": result["scenario"]["measured_s"],
        "requests": count_of(result, "requests.answered"),
        "mean_ms": value_of(result, "latency.mean"),
        "p50_ms": value_of(result, "latency.p50"),
        "p99_ms": value_of(result, "latency.p99"),
        "inferences_per_s": value_of(result, "throughput.inferences"),
        "checked": count_of(result, "outputs.checked"),
        "max_abs_error": value_of(result, "outputs.max_abs_error"),
        "top1_agreement": value_of(result, "outputs.top1_agreement"),
        "verdict": said(result["verdict"]),
        "failure": f"run: {', '.join(sorted(unusable))}" if unusable else None,
    }
