"""A suite as a page: what to know, the table, latencies and agreement of all workloads."""

from servemark.results.saved import Saved
from servemark.results.schema.suite import SuiteDocument
from servemark.views.drawing.axis import logarithmic
from servemark.views.drawing.plot import Bar, bars
from servemark.views.page.blocks import Article, Badge, Block, Figure, Lines, Section, Table
from servemark.views.plots.circumstances import environment, made
from servemark.views.terminal.suite import name_of, notes, table
from servemark.views.wording import figure


def article(saved: Saved) -> Article:
    """Compose the page: the number of valid cases, and the table of the terminal."""
    document = saved.of(SuiteDocument)
    rows = document["rows"]
    columns, cells = table(document)
    failed = [number for number, row in enumerate(rows) if row["failure"]]
    valid = sum(row["verdict"] == "VALID" for row in rows)
    counted = "cases" if document.get("published") else "workloads"
    return Article(
        about=f"suite {document['suite']} on {document['engine']}, concurrency {document['concurrency']}, "
        f"{document['duration_s']:g} s each",
        answer=f"{len(rows) - len(failed)} of {len(rows)} {counted} ran, {valid} VALID",
        sections=[
            Section("Workloads", [Table(columns, cells, marked=failed)]),
            Section("What to know", [Lines([line.replace("**", "") for line in notes(document, rows)])]),
            Section("Throughput", _throughput(document)),
            Section("Environment", environment(document)),
        ],
        badges=[Badge("FAILED", "bad")] if failed else [],
        made=made(document),
    )


def _throughput(document: SuiteDocument) -> list[Block]:
    known = sorted(
        ((rate, row) for row in document["rows"] if (rate := row["inferences_per_s"])), key=lambda each: -each[0]
    )
    if not known:
        return []
    drawn = [Bar(name_of(row), f"{figure(rate)}/s", rate) for rate, row in known]
    rates = Table(["workload", "inferences/s"], [[name_of(row), figure(rate)] for rate, row in known])
    axis = logarithmic("inferences/s", [rate for rate, _ in known])
    return [
        Figure("Inferences per second", bars("Inferences per second of each workload", axis, drawn, origin=None), rates)
    ]
