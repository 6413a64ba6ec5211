"""A page of results of `servemark kernels`: a summary of each suite by family, with its machine and commit.

    python -m kernels.tools.results_page results/*-kernels-quick results/*-kernels-deepbench-device \
        > docs/results/kernels.txt

A folder holds the `result.json` of one run. `servemark show` prints its single cases.
"""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernels.views import caveats, ceiling_lines, families, outcome, sensed, unmeasured
from servemark.results import directory as results
from servemark.results.schema.kernels import KernelsDocument, title
from servemark.views.blocks import Table
from servemark.views.render.markdown import pipes
from servemark.views.shape import made

PACKAGES = ("servemark", "torch", "numpy")
OMITTED_IF_EQUAL = ("precision", "library")
"""Columns that are left out where every row has the same value."""


def page(folders: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of the page. Raises OptionError, ResultError."""
    yield "# Kernels\n"
    yield "This page summarises one run of each suite, by family of kernels."
    yield "`python -m kernels.tools.results_page RESULT...` makes it from the results of the commands below."
    yield "`servemark show RESULT` prints the single cases."
    yield "[What the columns mean, and how it is measured](../guides/kernels.md#what-a-case-says)."
    for folder in folders:
        yield from summary(results.read_as(folder, KernelsDocument))


def summary(document: KernelsDocument) -> Iterator[str]:
    """Yield the lines of one run."""
    around, cases = document["environment"], document["cases"]
    packages = ", ".join(f"{name} {around['packages'].get(name)}" for name in PACKAGES)
    yield f"\n## {document['suite']}\n"
    yield f"`{shlex.join(document['command'])}`\n"
    yield f"- {title(document)}"
    yield f"- {made(document)}; {around['os']}, {packages}"
    yield f"- {outcome(document)}"
    yield from (f"- {line}" for line in ceiling_lines(document))
    yield from (f"- {line}" for line in [*caveats(cases), *unmeasured(cases), *sensed(cases)])
    yield ""
    yield table(families(cases))


def table(whole: Table) -> str:
    """Return a table of Markdown, without the columns of `OMITTED_IF_EQUAL` that hold one value."""
    shown = [
        index
        for index, name in enumerate(whole.head)
        if name not in OMITTED_IF_EQUAL or len({row[index] for row in whole.rows}) > 1
    ]
    return pipes(Table([whole.head[index] for index in shown], [[row[index] for index in shown] for row in whole.rows]))


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="RESULT")
    for line in page(parser.parse_args().folders):
        print(line)


if __name__ == "__main__":
    main()
