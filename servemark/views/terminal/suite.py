"""The table of a suite, on the terminal and as the page that docs/results/ keeps."""

import shlex
from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from servemark.machine.cpu_time import QUIET_SHARE
from servemark.results.constraint_kinds import Kind
from servemark.results.labels import suite_case
from servemark.results.schema.suite import SuiteDocument, SuiteRow
from servemark.views.markdown_table import circumstances
from servemark.workload import ai_matrix

_LEFT = ("workload", "precision", "unit", "agreement", "AI Matrix publishes", "verdict")
COLUMNS = (
    "workload",
    "parameters",
    "GFLOPs",
    "export s",
    "peak MiB",
    "requests",
    "mean ms",
    "p50 ms",
    "p99 ms",
    "inferences/s",
    "agreement",
    "verdict",
)
PUBLISHED_COLUMNS = ("workload", "precision", "batch", "unit", "p50 ms", "here/s", "AI Matrix publishes", "verdict")


def render_suite(document: SuiteDocument, console: Console) -> None:
    """Print the table of a suite, and what to know before reading it."""
    columns, rows = table(document)
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, justify="left" if column in _LEFT else "right", no_wrap=column == "workload")
    for row in rows:
        made.add_row(*row)
    console.print(made)
    for note in notes(document, document["rows"]):
        console.print(note.replace("**", ""), soft_wrap=True)


def table(document: SuiteDocument) -> tuple[tuple[str, ...], list[list[str]]]:
    """Columns and rows; AI Matrix's own where its batches were run."""
    if document.get("published"):
        return PUBLISHED_COLUMNS, [_beside_published(row) for row in document["rows"]]
    return COLUMNS, [_cells(row) for row in document["rows"]]


def name_of(row: SuiteRow) -> str:
    """The case that a row is of; documents before `--published` have neither precision nor batch."""
    return suite_case(row["workload"], row.get("precision", "fp32"), row.get("batch_size", 1))


def line(row: SuiteRow) -> str:
    """One workload's outcome, while the others are still to come."""
    if row["failure"]:
        return f"FAILED  {row['failure']}"
    return f"{row['verdict']}  {row['requests']:,} requests, {_figure(row['inferences_per_s'])} inferences/s"


def markdown(document: SuiteDocument) -> str:
    """A whole page: machine, command, what to know before reading, and the table."""
    columns, rows = table(document)
    head = [
        f"# Suite {document['suite']} on {document['engine']}",
        "",
        circumstances(document["created"], document["environment"]),
        "",
        f"`{shlex.join(document['command'])}`",
        "",
    ]
    body = ["| " + " | ".join(columns) + " |"]
    body += ["|" + "|".join("---" if column in _LEFT else "--:" for column in columns) + "|"]
    body += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([*head, *(f"- {note}" for note in notes(document, document["rows"])), "", *body]) + "\n"


def notes(document: SuiteDocument, rows: Sequence[SuiteRow]) -> list[str]:
    """List the remarks for the reader, by the outcomes of the cases."""
    concurrency, seconds = document["concurrency"], document["duration_s"]
    lines = [
        f"A closed loop of {concurrency}. An interval lasts {seconds:g} s, or longer until as many of its requests "
        "have been answered. Generator and server share the machine."
    ]
    busy = {name_of(row): row["busy_share"] for row in rows if row["busy_share"] is not None}
    if busy:
        most = max(busy, key=lambda name: busy[name])
        lines.append(
            f"In the second before each load, other work kept {median(busy.values()):.0%} of the cores busy in the "
            f"median, {busy[most]:.0%} at most (before {most})."
            + (" **The machine was not idle: latencies are upper bounds.**" if busy[most] > QUIET_SHARE else "")
        )
    old = sum(row["export_up_to_date"] for row in rows)
    if old and not document.get("published"):
        lines.append(f"{old} of {len(rows)} exports were there already; their seconds and MiB are from then.")
    if any(row["requests"] is not None and (row["p50_ms"] is None or row["p99_ms"] is None) for row in rows):
        lines.append("A dash is a percentile that so few requests do not support: p50 asks for 20, p99 for 1,000.")
    if document.get("published"):
        lines.append(
            "AI Matrix's batches, precisions and units. Its figures are of other hardware and, where a model's card "
            f"says so, of another network. It repeats each of {ai_matrix.PICTURES} pictures to a batch of Mask R-CNN; "
            "here all pictures of a batch differ."
        )
    else:
        lines.append(
            "`agreement` compares the answers to golden requests under load with eager PyTorch's, of an imported file "
            "with those of its own runtime."
        )
    verdicts = " ".join(row["verdict"] or "" for row in rows)
    if Kind.ENOUGH_SAMPLES in verdicts:
        lines.append("`enough_samples`: fewer than 20 requests were answered.")
    if Kind.STEADY_STATE in verdicts:
        lines.append("`steady_state`: the windows' throughput or p50 drifted, or too few of them have a figure.")
    failed: dict[str, list[str]] = {}
    for row in rows:
        if row["failure"]:
            failed.setdefault(row["failure"], []).append(name_of(row))
    if failed:
        lines.append(f"**{sum(map(len, failed.values()))} of {len(rows)} failed.**")
        lines += [f"{', '.join(names)}: {reason}" for reason, names in failed.items()]
    return lines


def _cells(row: SuiteRow) -> list[str]:
    """One row of the table."""
    if row["checked"]:
        error = f"max error {row['max_abs_error']:.1g}, " if row["max_abs_error"] is not None else ""
        agreement = f"{error}top-1 {row['top1_agreement']:.0%}"
    else:
        agreement = "-"
    figures = (
        row["export_s"],
        row["peak_rss_mib"],
        row["requests"],
        row["mean_ms"],
        row["p50_ms"],
        row["p99_ms"],
        row["inferences_per_s"],
    )
    return [
        row["workload"],
        "-" if row["parameters"] is None else f"{row['parameters']:,}",
        "-" if row["gflops"] is None else f"{row['gflops']:,.4g}",
        *map(_figure, figures),
        agreement,
        _verdict(row),
    ]


def _beside_published(row: SuiteRow) -> list[str]:
    workload, precision, batch = row["workload"], row["precision"], row["batch_size"]
    return [
        workload,
        precision,
        f"{batch}",
        ai_matrix.MACRO[workload].unit,
        _figure(row["p50_ms"]),
        _figure(row["inferences_per_s"]),
        "; ".join(ai_matrix.published(workload, precision, batch)) or "-",
        _verdict(row),
    ]


def _verdict(row: SuiteRow) -> str:
    """The verdict, or which step failed; the notes have the reason."""
    return f"FAILED: {row['failure'].partition(':')[0]}" if row["failure"] else row["verdict"] or "-"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
