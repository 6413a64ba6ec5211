"""A suite: a row for each workload, and what to know before reading it."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from servemark.machine.cpu_time import QUIET_SHARE
from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.suite import SuiteDocument, SuiteRow, suite_case
from servemark.results.verdict import Kind
from servemark.views.blocks import Article, Block, Check, Figure, Lines, Section, Table
from servemark.views.charts import Bar
from servemark.views.shape import shaped
from servemark.views.wording import cells
from servemark.workload.suites import ai_matrix

_FIGURES = {
    "export s": "export_s",
    "peak MiB": "peak_rss_mib",
    "requests": "requests",
    "mean ms": "mean_ms",
    "p50 ms": "p50_ms",
    "p99 ms": "p99_ms",
    "inferences/s": "inferences_per_s",
}
COLUMNS = ("workload", "parameters", "GFLOPs", *_FIGURES, "agreement", "verdict")
PUBLISHED_COLUMNS = ("workload", "precision", "batch", "unit", "p50 ms", "here/s", "AI Matrix publishes", "verdict")


def article(saved: Saved) -> Article:
    """The number of valid cases, a row for each, and what to know."""
    document = saved.of(SuiteDocument)
    rows = document["rows"]
    failed = [number for number, row in enumerate(rows) if row["failure"]]
    valid = sum(row["verdict"] == "VALID" for row in rows)
    invalid = len(rows) - len(failed) - valid
    counted = "cases" if document.get("published") else "workloads"
    # AI Matrix's own columns where its batches were run.
    columns, of_row = (PUBLISHED_COLUMNS, _beside_published) if document.get("published") else (COLUMNS, _cells)
    return shaped(
        document,
        about=f"suite {document['suite']} on {document['engine']}, concurrency {document['concurrency']}, "
        f"{document['duration_s']:g} s each",
        answer=f"{len(rows) - len(failed)} of {len(rows)} {counted} ran, {valid} VALID",
        explained=[f"INVALID: the figures of {invalid} {counted} cannot be quoted."] if invalid else [],
        sections=[
            Section("Workloads", [Table(columns, [of_row(row) for row in rows], marked=failed)]),
            Section("What to know", [Lines(notes(document, rows))]),
            Section("Throughput", lambda: _throughput(rows)),
        ],
        failed=failed,
    )


def name_of(row: SuiteRow) -> str:
    """The case that a row is of; documents before `--published` have neither precision nor batch."""
    return suite_case(row["workload"], row.get("precision", "fp32"), row.get("batch_size", 1))


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
            + (" The machine was not idle: latencies are upper bounds." if busy[most] > QUIET_SHARE else "")
        )
    old = sum(row["export_up_to_date"] for row in rows)
    if old and not document.get("published"):
        lines.append(f"{old} of {len(rows)} exports were there already; their seconds and MiB are from then.")
    if any(row["requests"] is not None and (row["p50_ms"] is None or row["p99_ms"] is None) for row in rows):
        lines.append("A dash is a percentile that needs more requests: p50 asks for 20, p99 for 1,000.")
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
        lines.append(f"{sum(map(len, failed.values()))} of {len(rows)} failed.")
        lines += [f"{', '.join(names)}: {reason}" for reason, names in failed.items()]
    return lines


def _cells(row: SuiteRow) -> list[str]:
    agreement = "-"
    if row["checked"]:
        error = f"max error {row['max_abs_error']:.1g}, " if row["max_abs_error"] is not None else ""
        agreement = f"{error}top-1 {row['top1_agreement']:.0%}"
    parameters = "-" if row["parameters"] is None else f"{row['parameters']:,}"
    figures = cells(row, tuple(_FIGURES.values()))
    return [row["workload"], parameters, figure(row["gflops"]), *figures, agreement, _verdict(row)]


def _beside_published(row: SuiteRow) -> list[str]:
    workload, precision, batch = row["workload"], row["precision"], row["batch_size"]
    return [
        *(workload, precision, f"{batch}", ai_matrix.MACRO[workload].unit),
        *cells(row, ("p50_ms", "inferences_per_s")),
        "; ".join(ai_matrix.published(workload, precision, batch)) or "-",
        _verdict(row),
    ]


def _verdict(row: SuiteRow) -> str:
    """The verdict, or which step failed; the notes have the reason."""
    return f"FAILED: {row['failure'].partition(':')[0]}" if row["failure"] else row["verdict"] or "-"


def _throughput(rows: Sequence[SuiteRow]) -> list[Block]:
    drawn = [Bar(name_of(row), rate, unit="/s") for row in rows if (rate := row["inferences_per_s"])]
    drawn.sort(key=lambda bar: -(bar.value or 0.0))
    head = ["workload", "inferences/s"]
    return [Figure.of_bars("Inferences per second", "inferences/s", drawn, head, points=True)] if drawn else []


def records(saved: Saved) -> list[dict[str, Any]]:
    """A row for each workload."""
    document = saved.document
    names = {
        **{f"{key}_ms": f"latency.{key}_ms" for key in ("mean", "p50", "p99")},
        "requests": "requests.answered",
        "inferences_per_s": "throughput.inferences_per_s",
    }
    return [
        {
            **{key: document[key] for key in ("suite", "engine")},
            **{names.get(key, key): value for key, value in row.items() if not key.endswith("_reason")},
        }
        for row in document["rows"]
    ]


def checks(saved: Saved) -> list[Check]:
    """Each workload is VALID."""
    document = saved.of(SuiteDocument)
    return [
        Check(
            row["workload"],
            not row["failure"] and row["verdict"] == "VALID",
            note=row["failure"] or row["verdict"] or "no verdict",
            subject=f"suite.{document['suite']}",
        )
        for row in document["rows"]
    ]
