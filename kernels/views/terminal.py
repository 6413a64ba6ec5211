"""A kernels document on the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from kernels.views.notes import DEFECTS, caveats, ceiling_lines, outcome, sensed, unmapped, unmeasured
from kernels.views.tables import (
    COLUMNS,
    EXPLAINED_COLUMNS,
    FAMILY_COLUMNS,
    LEFT,
    PUBLISHED_COLUMNS,
    cells,
    explained_rows,
    family_rows,
    published_rows,
)
from servemark.results.schema.kernels import KernelsDocument, title


def render_kernels(document: KernelsDocument, console: Console) -> None:
    """Print cases, a summary for each family, and the cases that were not measured."""
    console.print(title(document))
    for line in ceiling_lines(document):
        console.print(line)
    measured = [case for case in document["cases"] if case["ms"]]
    if measured:
        console.print(_table(COLUMNS, [cells(case) for case in measured]))
        console.print()
    console.print(_table(FAMILY_COLUMNS, family_rows(document["cases"])))
    for line in [*caveats(document["cases"]), *unmeasured(document["cases"])]:
        console.print(line)
    if document["traced"]:
        console.print()
        console.print(_table(EXPLAINED_COLUMNS, explained_rows(document["traced"])))
        for line in unmapped(document["traced"]):
            console.print(line)
    if rows := published_rows(document["cases"]):
        console.print()
        console.print(_table(PUBLISHED_COLUMNS, rows))
        console.print(DEFECTS)
    for line in sensed(document["cases"]):
        console.print(line)
    console.print(outcome(document))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="left" if column in LEFT else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
