"""docs/reference/support.md, made from support.json: for each engine what it runs, how far off, and else why not."""

from collections.abc import Mapping, Sequence
from typing import Any

from exporters import exporter
from servemark.paths import CHECKOUT
from servemark.workload.agreement import PRECISIONS

RECORD = CHECKOUT / "docs" / "reference" / "support.json"
MARKDOWN = CHECKOUT / "docs" / "reference" / "support.md"
HEAD = """\
# What runs on which engine

`python -m tools.support_matrix` tries each export and compares the artifact with eager PyTorch. It writes this page
from [support.json](support.json). {machine}.

| cell | meaning |
| --- | --- |
| yes 5e-04 | exports; the largest error of an output element, relative to the largest of its sample |
| yes = | exports; all outputs are whole numbers, and equal |
| yes cos 0.9964, top-1 15 of 16 | reduced precision: smallest cosine similarity, samples with the same first choice |
| no [1] | `servemark export` fails with exit code 3 and this reason |
| *tiny* | tried on the tiny variant only: the same graph with small widths |
| - | not tried |

Weights are random, from a seed: the figures are agreement with fp32, not accuracy. Rounding averages out less in a tiny
variant, so its "no" says little about the model at full size. Below each table stand the precisions that the engine
refuses, with the reason. No engine falls back to another precision. [engines.md](engines.md) says what each means.

A cell with "of 6" is older: its export judged 6 of the 16 golden samples. An export now judges the samples that a run
checks. CPUs without VNNI may saturate in int8, and so differ from this page. What failed on such a CPU alone counts as
not tried.
"""


def render(record: Mapping[str, Any]) -> str:
    """Write the page."""
    cells = {(cell["workload"], cell["engine"], cell["precision"]): cell for cell in record["cells"]}
    engines: dict[str, list[str]] = {}
    for _, engine, precision in cells:
        if precision not in engines.setdefault(engine, []):
            engines[engine].append(precision)
    reasons: list[str] = []
    workloads = sorted({workload for workload, _, _ in cells})
    packages = ", ".join(f"{name} {version}" for name, version in record["packages"].items())
    machine = f"Last run {record['created']}: {record['cpu']}, Python {record['python']}, {packages}"
    parts = [HEAD.format(machine=machine), _counts(cells, engines)]
    for engine, found in sorted(engines.items()):
        precisions = sorted(found, key=PRECISIONS.index)
        rows = [
            [workload, *(_cell(cells.get((workload, engine, each)), reasons) for each in precisions)]
            for workload in workloads
        ]
        parts.append(f"## {engine}\n\n{_table(['workload', *precisions], rows)}")
        parts += [f"No {precision}: {reason}.\n" for precision, reason in exporter(engine).REFUSED.items()]
    if reasons:
        parts.append("## Reasons\n\n" + "\n".join(f"{number}. {text}" for number, text in enumerate(reasons, 1)) + "\n")
    return "\n".join(parts)


def _counts(cells: Mapping[tuple[str, str, str], Mapping[str, Any]], engines: Mapping[str, Sequence[str]]) -> str:
    rows = []
    for engine, precisions in sorted(engines.items()):
        for precision in sorted(precisions, key=PRECISIONS.index):
            tried = [
                cell for (_, e, p), cell in cells.items() if (e, p) == (engine, precision) and cell["ok"] is not None
            ]
            full = [cell for cell in tried if cell["size"] == "full"]
            rows.append([engine, precision, _share(full), _share([cell for cell in tried if cell not in full])])
    return _table(["engine", "precision", "run at full size", "run as tiny only"], rows)


def _share(cells: Sequence[Mapping[str, Any]]) -> str:
    return f"{sum(bool(cell['ok']) for cell in cells)} of {len(cells)}" if cells else "-"


def _cell(cell: Mapping[str, Any] | None, reasons: list[str]) -> str:
    if cell is None:
        return "-"
    tiny = " *tiny*" if cell["size"] == "tiny" else ""
    if not cell["ok"]:
        text = str(cell["reason"]).partition(" (allowed:")[0].replace("|", "\\|")
        if text not in reasons:
            reasons.append(text)
        number = reasons.index(text) + 1
        return f"no [{number}]{tiny}" if cell["ok"] is False else f"- [{number}]"
    if cell["precision"] == "fp32":
        return ("yes =" if cell["max_rel"] is None else f"yes {cell['max_rel']:.0e}") + tiny
    similar = "" if cell["cosine_min"] is None else f" cos {cell['cosine_min']:.4f},"
    return f"yes{similar} top-1 {cell['top1_samples']} of {cell['samples']}{tiny}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
