"""A whole suite unattended, past any workload that fails, with one table at the end."""

import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import psutil

from loadgen.load.load_config import LoadConfig
from servemark import interrupts
from servemark.campaign import Campaign, Turn
from servemark.documents.load import ClosedLoop
from servemark.documents.request import RunRequest, changed
from servemark.figures.registry import count_of, value_of
from servemark.machine.own_process import ERRORS, a_command, apart, words
from servemark.output import ERRORS as SAY_ERRORS
from servemark.output import SAYS, note
from servemark.quantities import figure
from servemark.repository.entry import Entry
from servemark.results import directory as results
from servemark.results.constraint_kinds import broken, of_the_server
from servemark.results.schema.header import campaign_opening
from servemark.results.schema.run import Result
from servemark.results.schema.suite import SuiteDocument, SuiteRow, not_reached
from servemark.results.verdict import failed_constraints, said
from servemark.runs.locust_process import drive
from servemark.runs.server import server_for
from servemark.runs.suite_plan import Case, Plan, measured_flops_per_s

EXPORT_TIMEOUT_S = 1800
RUN_TIMEOUT_S = 900
REQUEST_TIMEOUT_S = 300
"""The heaviest models take tens of seconds for a request on two cores."""


OnRow = Callable[[Path, SuiteDocument], None]
"""Called after each row, and at the end, with the result directory and the document so far."""


def run_suite(
    plan: Plan, out: Path, *, resume: Path | None = None, remove: bool = False, on_row: OnRow = lambda *_: None
) -> tuple[Path, SuiteDocument]:
    """Export and load every case of a plan; return the result directory and the document.

    suite.json is complete after each row, also after Ctrl-C, which raises KeyboardInterrupt. To `resume` a directory
    makes the cases that it lacks, failed ones among them. With `remove` an exported model is removed after its last
    case. Raises ResultError, OptionError.
    """
    directory = resume or results.new_directory(out, f"suite-{plan.suite}")
    document: SuiteDocument = {
        **campaign_opening(),
        "kind": "suite",
        "suite": plan.suite,
        "engine": plan.engine,
        "concurrency": plan.options.concurrency,
        "duration_s": plan.options.duration_s,
        "warmup_s": plan.options.warmup_s,
        "published": plan.options.published,
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
            if remove and not any(each.artifact == case.artifact for each in plan.cases[number:]):
                entry = Entry(plan.repository, case.workload.name, plan.engine, case.precision)
                shutil.rmtree(entry.folder, ignore_errors=True)
    return directory, document


def line(row: SuiteRow) -> str:
    """Say how a case came out."""
    if row["failure"]:
        return f"FAILED  {row['failure']}"
    return f"{row['verdict']}  {row['requests']:,} requests, {figure(row['inferences_per_s'])} inferences/s"


def _row(case: Case, plan: Plan, directory: Path, refused: dict[tuple[str, str], str]) -> SuiteRow:
    """Export and run one workload, each in a process of its own: its memory ends with it, and so does its crash."""
    workload, name = case.workload, case.workload.name
    gflops = None if workload.flops is None else workload.flops / 1e9
    row = not_reached(name, workload.parameters, gflops, case.precision, case.batch)
    if case.artifact in refused:  # at another batch, which the export does not know of
        return {**row, "failure": refused[case.artifact]}
    from exporters.pipeline.isolated import Task, export_isolated

    try:
        task = Task(name, plan.engine, case.precision, plan.repository, force=False)
        exported = export_isolated(task, EXPORT_TIMEOUT_S)
    except ERRORS as error:
        refused[case.artifact] = failure = f"export: {words(error)}"
        return {**row, "failure": failure}
    row["export_s"], row["peak_rss_mib"] = exported.manifest["seconds"], exported.manifest["peak_rss_mib"]
    row["export_up_to_date"], row["busy_share"] = exported.up_to_date, psutil.cpu_percent(interval=1.0) / 100
    options = plan.options
    load = ClosedLoop(concurrency=options.concurrency, duration_s=options.duration_s, warmup=options.warmup_s)
    asked = {"engine": plan.engine, "precision": case.precision, "batch_size": case.batch}
    try:
        return _measured(row, load_apart(name, load, plan.repository, directory, **asked))
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
