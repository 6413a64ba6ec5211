"""A whole suite unattended, past any workload that fails, with one table at the end."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psutil

from servemark import interrupts
from servemark.errors import ExitCode, OptionError
from servemark.output import note
from servemark.quantities import one_of, text_of
from servemark.report import ai_matrix
from servemark.report.terminal.suite import line, markdown
from servemark.repository.entry import FULL, Entry
from servemark.results import directory as results
from servemark.results.schema.header import opening
from servemark.results.schema.run import Result
from servemark.results.schema.suite import SuiteDocument, SuiteRow, not_reached
from servemark.results.verdict import failed_constraints, said
from servemark.runs.locust_process import stopping
from servemark.workload import Workload, workloads
from servemark.workload.registry import own

SUBSET = ("resnet50", "faster_rcnn", "ranking")
"""AIBench's own subset: image classification, object detection, learning to rank (report, section 5.4)."""
VARIANT = ", variant"
"""Ends the suite of a workload that is not the suite's own, but the same task with another network or other sizes."""
EXPORT_TIMEOUT_S = 1800
RUN_TIMEOUT_S = 900
REQUEST_TIMEOUT_S = 300
"""The heaviest models take tens of seconds for a request on two cores."""


def run_suite(
    name: str,
    engine: str,
    repository: Path,
    out: Path,
    *,
    concurrency: int,
    duration_s: float,
    warmup_s: float,
    remove: bool = False,
    published: bool = False,
    precisions: Sequence[str] = (),
) -> tuple[Path, SuiteDocument]:
    """Export and load every workload of a suite; the result directory and the document.

    `published` runs AI Matrix's batches, in those of its precisions that the engine has and that `precisions`, if there
    are any, names. suite.json and suite.md are complete after each row; an exported model is removed after its last one
    where `remove` says so. Raises OptionError, ResultError.
    """
    from servers.engines import engine_names

    one_of("engine", engine, engine_names())
    if (published or precisions) and name != "ai-matrix":
        raise OptionError("--published and --precision are of the suite ai-matrix", fix="servemark suite ai-matrix")
    if published:
        cases = _published_cases(members(name), engine, precisions)
    else:
        cases = [_Case(workload, FULL, 1) for workload in members(name)]
    directory = results.new_directory(out, f"suite-{name}")
    document: SuiteDocument = {
        **opening("suite"),
        "suite": name,
        "engine": engine,
        "concurrency": concurrency,
        "duration_s": duration_s,
        "warmup_s": warmup_s,
        "published": published,
        "rows": [],
    }
    load = ["--concurrency", f"{concurrency}", "--duration", text_of(duration_s), "--warmup", text_of(warmup_s)]
    load += ["--request-timeout", f"{REQUEST_TIMEOUT_S}", "--out", str(directory)]
    rows = document["rows"]
    for number, case in enumerate(cases, start=1):
        note(f"[{number}/{len(cases)}] {case}")
        rows.append(_row(case, engine, load, repository))
        note(f"    {line(rows[-1])}")
        if remove and not any(each.artifact == case.artifact for each in cases[number:]):
            shutil.rmtree(Entry(repository, case.workload.name, engine, case.precision).folder, ignore_errors=True)
        # After each workload, so that a crash loses none of those before.
        results.write_atomically(directory / "suite.json", results.to_json(document))
        results.write_atomically(directory / "suite.md", markdown(document))
    return directory, document


def members(name: str) -> list[Workload]:
    """The workloads of a suite, without the variants that stand beside them. Raises OptionError."""
    every = workloads().values()
    found = {
        "aibench": [w for w in every if any(s.startswith("AIBench") and not s.endswith(VARIANT) for s in w.suites)],
        "ai-matrix": [w for w in every if "AI Matrix" in w.suites],
        "subset": [w for w in every if w.name in SUBSET],
        "all": list(every),
        "own": list(own().values()),
    }
    return found[one_of("suite", name, found)]


@dataclass(frozen=True)
class _Case:
    """A workload in a precision, at a batch."""

    workload: Workload
    precision: str
    batch: int

    @property
    def artifact(self) -> tuple[str, str]:
        """What is exported for it."""
        return self.workload.name, self.precision

    def __str__(self) -> str:
        precision = "" if self.precision == FULL else f" {self.precision}"
        return f"{self.workload.name}{precision}" + (f" -b {self.batch}" if self.batch > 1 else "")


def _published_cases(chosen: Sequence[Workload], engine: str, precisions: Sequence[str]) -> list[_Case]:
    """What AI Matrix runs, as far as the engine can. Raises OptionError on a precision that AI Matrix does not run."""
    import exporters

    for precision in precisions:
        one_of("precision", precision, ai_matrix.CNN.precisions)
        exporters.check_precision(engine, precision)
    possible = set(precisions or exporters.precisions(engine))
    return [
        _Case(workload, precision, batch)
        for workload in chosen
        for precision in ai_matrix.MACRO[workload.name].precisions
        if precision in possible
        for batch in ai_matrix.MACRO[workload.name].batches
    ]


def _row(case: _Case, engine: str, load: list[str], repository: Path) -> SuiteRow:
    """Export and run one workload, each as a process of its own: its memory ends with it, and so does its crash."""
    workload = case.workload
    row = not_reached(workload.name, workload.parameters or 0, (workload.flops or 0) / 1e9, case.precision, case.batch)
    common = [workload.name, "--engine", engine, "--precision", case.precision]
    common += ["--model-repository", str(repository), "--json"]
    exported, failure = _command(["export", *common], EXPORT_TIMEOUT_S)
    if exported is None or failure:
        return {**row, "failure": f"export: {failure}"}
    manifest = exported["exports"][0]
    row["export_s"], row["peak_rss_mib"] = manifest["seconds"], manifest["peak_rss_mib"]
    row["export_up_to_date"], row["busy_share"] = manifest["up_to_date"], psutil.cpu_percent(interval=1.0) / 100
    ran, failure = _command(["run", *common, "--batch-size", f"{case.batch}", *load], RUN_TIMEOUT_S)
    if ran is None or ran["metrics"] is None:
        return {**row, "failure": f"run: {failure}"}
    return _measured(row, cast(Result, ran))


def _measured(row: SuiteRow, result: Result) -> SuiteRow:
    """The row with what its run measured."""
    metrics, latency = result["metrics"], result["metrics"]["latency_ms"]
    agreement = metrics["accuracy"]["output_agreement"]
    failed = failed_constraints(result["verdict"])
    broken = {"completed", "error_share", "server_alive", "output_agreement"} & set(failed)
    return {
        **row,
        "measured_s": result["scenario"]["measured_s"],
        "requests": latency["count"],
        "mean_ms": latency["mean"],
        "p50_ms": latency["p50"],
        "p99_ms": latency["p99"],
        "inferences_per_s": metrics["throughput"]["inferences_per_s"],
        "checked": agreement["checked"],
        "max_abs_error": agreement["max_abs_error"],
        "top1_agreement": agreement["top1_agreement"],
        "verdict": said(result["verdict"]),
        "failure": f"run: {', '.join(sorted(broken))}" if broken else None,
    }


def _command(arguments: list[str], timeout_s: float) -> tuple[dict[str, Any] | None, str | None]:
    """Run a command of ours; its JSON, or the last words of its errors."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([sys.executable, "-m", "servemark", *arguments], stdout=output, stderr=errors)
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
    return document, (" ".join(last) or f"exit code {code}") if failed or document is None else None
