"""`servemark suite`: a whole suite unattended, past any workload that fails, with one table at the end."""

import json as json_
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from servemark import results
from servemark.cli.options import DEFAULT_ENGINE, DEFAULT_REPOSITORY, Engine, Json, Repository
from servemark.environment import collect
from servemark.errors import ExitCode, OptionError
from servemark.models import Workload, workloads
from servemark.output import note, stdout
from servemark.paths import RESULTS

SUBSET = ("resnet50", "faster_rcnn", "ranking")
"""AIBench's own subset: image classification, object detection, learning to rank (report, section 5.4)."""
SECONDS_PER_GFLOP = 0.05
"""Two cores take about half of this for a sample; the interval has to hold several samples of the heaviest models."""
EXPORT_TIMEOUT_S = 1800
RUN_TIMEOUT_S = 900


@dataclass(frozen=True)
class Row:
    """One workload's outcome; what was not reached is None and `failure` says why."""

    workload: str
    parameters: int
    gflops: float
    export_s: float | None = None
    peak_rss_mib: int | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    inferences_per_s: float | None = None
    checked: int | None = None
    max_abs_error: float | None = None
    top1_agreement: float | None = None
    verdict: str | None = None
    failure: str | None = None


def suite(
    name: Annotated[str, typer.Argument(metavar="SUITE", help="aibench, ai-matrix, subset or all.")],
    engine: Engine = DEFAULT_ENGINE,
    concurrency: Annotated[int, typer.Option(metavar="N", min=1, help="Requests on their way.")] = 2,
    duration: Annotated[float, typer.Option(metavar="S", help="Measured seconds; more for the heaviest models.")] = 5.0,
    warmup: Annotated[float, typer.Option(metavar="S", help="Seconds before, which do not count.")] = 1.0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results are made.", show_default="results")] = RESULTS,
    model_repository: Repository = DEFAULT_REPOSITORY,
    remove: Annotated[bool, typer.Option("--remove", help="Remove each exported model after its run.")] = False,
    json: Json = False,
) -> None:
    """Export and load every workload of a suite, and show one table.

    Example: servemark suite subset --concurrency 2 --duration 5
    """
    chosen = members(name)
    directory = results.new_directory(out, f"suite-{name}")
    rows = []
    for number, workload in enumerate(chosen, start=1):
        note(f"[{number}/{len(chosen)}] {workload.name}")
        rows.append(_row(workload, engine, concurrency, duration, warmup, directory, model_repository))
        if remove:
            shutil.rmtree(model_repository / f"{workload.name}_{engine}", ignore_errors=True)
        # After each workload, so that a crash loses none of those before.
        document = _document(name, engine, concurrency, duration, rows)
        results.write_atomically(directory / "suite.json", results.to_json(document))
    results.write_atomically(directory / "suite.md", markdown(document))
    if json:
        print(results.to_json(document), end="")  # noqa: T201
    else:
        _print(rows)
        note(f"result: {directory}")
    raise typer.Exit(int(ExitCode.INVALID if any(row.failure for row in rows) else ExitCode.VALID))


def members(name: str) -> list[Workload]:
    """The workloads of a suite. Raises OptionError."""
    zoo = workloads().values()
    found = {
        "aibench": [w for w in zoo if any(s.startswith("AIBench") for s in w.suites)],
        "ai-matrix": [w for w in zoo if "AI Matrix" in w.suites],
        "subset": [w for w in zoo if w.name in SUBSET],
        "all": list(zoo),
    }
    if name not in found:
        raise OptionError(f"unknown suite {name!r}", fix=f"one of: {', '.join(found)}")
    return found[name]


def _row(
    workload: Workload, engine: str, concurrency: int, duration: float, warmup: float, out: Path, repository: Path
) -> Row:
    """Export and run one workload, each as a process of its own: its memory ends with it, and so does its crash."""
    row: dict[str, Any] = {"workload": workload.name, "parameters": workload.parameters, "gflops": workload.flops / 1e9}
    common = [workload.name, "--engine", engine, "--model-repository", str(repository), "--json"]
    exported, failure = _command(["export", *common], EXPORT_TIMEOUT_S)
    if exported is None or failure:
        return Row(**row, failure=f"export: {failure}")
    manifest = exported["exports"][0]
    row |= {"export_s": manifest["seconds"], "peak_rss_mib": manifest["peak_rss_mib"]}
    seconds = max(duration, SECONDS_PER_GFLOP * workload.flops / 1e9)
    load = ["--concurrency", str(concurrency), "--duration", f"{seconds:.3g}", "--warmup", f"{warmup:g}"]
    ran, failure = _command(["run", *common, *load, "--request-timeout", "300", "--out", str(out)], RUN_TIMEOUT_S)
    if ran is None:
        return Row(**row, failure=f"run: {failure}")
    metrics = ran["metrics"]
    agreement = metrics["accuracy"]["output_agreement"]
    failed = [c["name"] for c in ran["verdict"]["constraints"] if not c["ok"]]
    broken = {"completed", "error_share", "server_alive", "output_agreement"} & set(failed)
    return Row(
        **row,
        p50_ms=metrics["latency_ms"]["p50"],
        p99_ms=metrics["latency_ms"]["p99"],
        inferences_per_s=metrics["throughput"]["inferences_per_s"],
        checked=agreement["checked"],
        max_abs_error=agreement["max_abs_error"],
        top1_agreement=agreement["top1_agreement"],
        verdict="VALID" if not failed else f"INVALID: {', '.join(failed)}",
        failure=f"run: {', '.join(sorted(broken))}" if broken else None,
    )


def _command(arguments: list[str], timeout_s: float) -> tuple[dict[str, Any] | None, str | None]:
    """Run a command of ours; its JSON, or the last words of its errors."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "servemark", *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, f"not done within {timeout_s:g} s"
    try:
        document: dict[str, Any] | None = json_.loads(done.stdout)
    except ValueError:
        document = None
    failed = done.returncode not in (ExitCode.VALID, ExitCode.INVALID, ExitCode.SLO_MISSED)
    last = done.stderr.strip().splitlines()[-3:]
    return document, (" ".join(last) or f"exit code {done.returncode}") if failed or document is None else None


def _document(name: str, engine: str, concurrency: int, duration: float, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "schema_version": results.SCHEMA_VERSION,
        "kind": "suite",
        "suite": name,
        "engine": engine,
        "concurrency": concurrency,
        "duration_s": duration,
        "rows": [asdict(row) for row in rows],
        "environment": collect(),
    }


_COLUMNS = (
    "workload",
    "parameters",
    "GFLOPs",
    "export s",
    "peak MiB",
    "p50 ms",
    "p99 ms",
    "inferences/s",
    "agreement",
    "verdict",
)


def _cells(row: Row) -> list[str]:
    if row.checked:
        error = f"max error {row.max_abs_error:.1g}, " if row.max_abs_error is not None else ""
        agreement = f"{error}top-1 {row.top1_agreement:.0%}"
    else:
        agreement = "-"
    figures = (row.export_s, row.peak_rss_mib, row.p50_ms, row.p99_ms, row.inferences_per_s)
    shown = ["-" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}" for value in figures]
    return [
        row.workload,
        f"{row.parameters:,}",
        f"{row.gflops:,.4g}",
        *shown,
        agreement,
        row.failure or row.verdict or "-",
    ]


def _print(rows: Sequence[Row]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in _COLUMNS:
        table.add_column(
            column,
            justify="left" if column in ("workload", "agreement", "verdict") else "right",
            no_wrap=column == "workload",
        )
    for row in rows:
        table.add_row(*_cells(row))
    stdout().print(table)


def markdown(document: dict[str, Any]) -> str:
    """The table with its environment, as docs/results/ keeps them."""
    environment = document["environment"]
    packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    lines = [
        f"# Suite {document['suite']} on {document['engine']}",
        "",
        f"{environment['cpu']}, {environment['cores']} cores, {environment['memory_gb']} GB; {environment['os']}, "
        f"Python {environment['python']}; commit {environment['git_commit']}; {packages}.",
        "",
        f"`servemark suite {document['suite']} --engine {document['engine']} --concurrency {document['concurrency']} "
        f"--duration {document['duration_s']:g}`",
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "|" + "---|" * len(_COLUMNS),
    ]
    lines += ["| " + " | ".join(_cells(Row(**row))) + " |" for row in document["rows"]]
    return "\n".join(lines) + "\n"
