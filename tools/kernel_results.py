"""A page of results of `servemark kernels`: how each case did, with its environment.

    python -m tools.kernel_results docs/results/kernels/quick docs/results/kernels/deepbench_device \
        > docs/results/kernels.md

A folder holds the `result.json` of one run, which `servemark show` and `servemark compare` take too.
"""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from servemark.errors import OptionError
from servemark.report.kernels import (
    COLUMNS,
    FAMILY_COLUMNS,
    LEFT,
    caveats,
    ceiling_lines,
    cells,
    family_rows,
    outcome,
    sensed,
    title,
    unmeasured,
)
from servemark.report.plots.circumstances import made
from servemark.results import directory as results
from servemark.results.schema.kernels import KernelsDocument

PACKAGES = ("servemark", "torch", "numpy")
LEFT_OUT = ("precision", "library")
"""Columns that say the same in each row, and are left out where they do."""


def page(folders: Sequence[Path]) -> Iterator[str]:
    """Lines of the page."""
    yield "# Kernels\n"
    yield f"Made by `python -m tools.kernel_results {' '.join(map(str, folders))}` from the `result.json` there."
    yield "[What the columns mean, and how it is measured](../guides/kernels.md#what-a-case-says)."
    for folder in folders:
        document = results.read(folder)
        if document.get("kind") != "kernels":
            raise OptionError(f"{folder} holds no kernels", fix="name a folder of `servemark kernels`")
        yield from run(cast(KernelsDocument, document))


def run(document: KernelsDocument) -> Iterator[str]:
    """Lines of one run."""
    around, cases = document["environment"], document["cases"]
    packages = ", ".join(f"{name} {around['packages'].get(name)}" for name in PACKAGES)
    yield f"\n## {document['suite']}\n"
    yield f"`{shlex.join(document['command'])}`\n"
    yield f"- {title(document)}"
    yield f"- {made(document)}; {around['os']}, {packages}"
    yield f"- {outcome(document)}"
    yield from (f"- {words}" for words in ceiling_lines(document))
    yield from (f"- {words}" for words in [*caveats(cases), *unmeasured(cases), *sensed(cases)])
    yield ""
    yield from table(FAMILY_COLUMNS, family_rows(cases))
    yield ""
    yield from table(COLUMNS, [cells(case) for case in cases if case["ms"]])


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table of Markdown, without the columns of `LEFT_OUT` that say nothing."""
    shown = [
        index for index, name in enumerate(columns) if name not in LEFT_OUT or len({row[index] for row in rows}) > 1
    ]
    lines = [[columns[index] for index in shown], ["---" if columns[index] in LEFT else "--:" for index in shown]]
    lines += [[row[index] for index in shown] for row in rows]
    yield from (f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    for line in page(parser.parse_args().folders):
        print(line)


if __name__ == "__main__":
    main()
