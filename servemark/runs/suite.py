"""A whole suite unattended, past any workload that fails, with one table at the end."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from servemark import interrupts
from servemark.errors import ExitCode
from servemark.figures.registry import count_of, value_of
from servemark.output import note
from servemark.quantities import text_of
from servemark.repository.entry import Entry
from servemark.results import directory as results
from servemark.results.constraint_kinds import broken, of_the_server
from servemark.results.kinds import conformed
from servemark.results.schema.header import opening
from servemark.results.schema.run import Result
from servemark.results.schema.suite import SuiteDocument, SuiteRow, not_reached
from servemark.results.verdict import failed_constraints, said
from servemark.runs.locust_process import stopping
from servemark.runs.suite_plan import Case, Plan, left_s, measured_flops_per_s

EXPORT_TIMEOUT_S = 1800
RUN_TIMEOUT_S = 900
REQUEST_TIMEOUT_S = 300
"""The heaviest models take tens of seconds for a request on two cores."""


OnRow = Callable[[Path, SuiteDocument, float | None], None]
"""Called after each row with the result directory, the document so far, and the seconds left (None: no row)."""


def run_suite(
    plan: Plan, out: Path, *, remove: bool = False, on_row: OnRow = lambda *_: None
) -> tuple[Path, SuiteDocument]:
    """Export and load every case of a plan; return the result directory and the document.

    suite.json is complete after each row. With `remove` an exported model is removed after its last case. Raises
    ResultError.
    """
    cases, engine, repository = plan.cases, plan.engine, plan.repository
    directory = results.new_directory(out, f"suite-{plan.suite}")
    document: SuiteDocument = {
        **opening(),
        "kind": "suite",
        "suite": plan.suite,
        "engine": engine,
        "concurrency": plan.options.concurrency,
        "duration_s": plan.options.duration_s,
        "warmup_s": plan.options.warmup_s,
        "published": plan.options.published,
        "rows": [],
    }
    load = ["--concurrency", f"{plan.options.concurrency}", "--duration", text_of(plan.options.duration_s)]
    load += [
        "--warmup",
        text_of(plan.options.warmup_s),
        "--request-timeout",
        f"{REQUEST_TIMEOUT_S}",
        "--out",
        str(directory),
    ]
    rows = document["rows"]
    refused: dict[tuple[str, str], str] = {}
    costs = plan.costs_s(measured_flops_per_s())
    note(plan.whole(costs))
    begun = time.monotonic()
    for number, case in enumerate(cases, start=1):
        note(f"[{number}/{len(cases)}] {case}")
        if case.artifact in refused:  # at another batch, which the export does not know of
            rows.append({**_unreached(case), "failure": refused[case.artifact]})
        else:
            rows.append(_row(case, engine, load, repository))
        if rows[-1]["failure"] and rows[-1]["export_s"] is None:
            refused[case.artifact] = rows[-1]["failure"]
        if remove and not any(each.artifact == case.artifact for each in cases[number:]):
            shutil.rmtree(Entry(repository, case.workload.name, engine, case.precision).folder, ignore_errors=True)
        # After each workload, so that a crash loses none of those before.
        results.write_atomically(directory / "suite.json", results.to_json(document))
        on_row(directory, document, left_s(costs, number, time.monotonic() - begun) if number < len(cases) else None)
    return directory, document


def _row(case: Case, engine: str, load: list[str], repository: Path) -> SuiteRow:
    """Export and run one workload, each as a process of its own: its memory ends with it, and so does its crash."""
    row = _unreached(case)
    common = [case.workload.name, "--engine", engine, "--precision", case.precision]
    common += ["--model-repository", str(repository), "--json"]
    exported, failure = command(["export", *common], EXPORT_TIMEOUT_S)
    if exported is None or failure:
        return {**row, "failure": f"export: {failure}"}
    manifest = exported["exports"][0]
    row["export_s"], row["peak_rss_mib"] = manifest["seconds"], manifest["peak_rss_mib"]
    row["export_up_to_date"], row["busy_share"] = manifest["up_to_date"], psutil.cpu_percent(interval=1.0) / 100
    ran, failure = command(["run", *common, "--batch-size", f"{case.batch}", *load], RUN_TIMEOUT_S)
    if ran is None or ran["figures"] is None:
        return {**row, "failure": f"run: {failure}"}
    return _measured(row, conformed(ran, Result))


def _unreached(case: Case) -> SuiteRow:
    """The row of a case of which nothing is known yet."""
    workload = case.workload
    gflops = None if workload.flops is None else workload.flops / 1e9
    return not_reached(workload.name, workload.parameters, gflops, case.precision, case.batch)


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


def command(arguments: list[str], timeout_s: float) -> tuple[dict[str, Any] | None, str | None]:
    """Run a command of ours; its JSON, or the last words of its errors."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        with interrupts.held_back():
            command, watched = [sys.executable, "-m", "servemark", *arguments], {interrupts.WATCHER: str(os.getpid())}
            process = subprocess.Popen(command, stdout=output, stderr=errors, env=os.environ | watched)
        try:
            with stopping([process]):
                code = interrupts.wait(process, timeout_s)
        except subprocess.TimeoutExpired:
            return None, f"not done within {timeout_s:g} s"
        output.seek(0)
        errors.seek(0)
        try:
            document: dict[str, Any] | None = json.load(output)
        except ValueError:
            document = None
        last = errors.read().strip().splitlines()[-3:]
    failed = code not in (ExitCode.VALID, ExitCode.INVALID, ExitCode.SLO_MISSED)
    words = "; ".join(line.strip() for line in last).removeprefix("servemark: ")
    return document, (words or f"exit code {code}") if failed or document is None else None
