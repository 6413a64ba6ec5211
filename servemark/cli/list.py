"""`servemark list`: the workloads, and the figures of a result."""

from pathlib import Path
from typing import Any

from rich.table import Table

from servemark.documents.commands.prepare import List
from servemark.errors import OptionError
from servemark.figures.registry import registry
from servemark.hub.blocks.description import search
from servemark.output import stdout
from servemark.quantities import one_of
from servemark.results.directory import print_json
from servemark.runs.suite import members
from servemark.workload import Workload, workloads
from servemark.workload.suites import BY_NAME

FIGURES = "figures"


def list_(options: List) -> None:
    """List the workloads, or the figures."""
    suite = options.suite
    if options.library:
        found = search(options.library, options.what)
        if not found:
            raise OptionError(f"no model of {options.library} has {options.what!r} in its name", fix="ask for less")
        if options.json:
            print_json([f"{options.library}/{name}" for name in found])
        for name in [] if options.json else found:
            stdout().print(f"{options.library}/{name}")
        return
    if options.what:
        one_of("list", options.what, [FIGURES])
        _list_figures(json=options.json)
        return
    if suite in BY_NAME:
        chosen = members(suite)
    else:
        chosen = [w for w in workloads().values() if not suite or any(_key(suite) in _key(name) for name in w.suites)]
    if not chosen:
        suites = sorted({*BY_NAME, *(name for w in workloads().values() for name in w.suites)})
        raise OptionError(f"no workload belongs to the suite {suite!r}", fix=f"one of: {', '.join(suites)}")
    if options.json:
        print_json([_row(w) for w in chosen])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("workload", "task", "suites", "parameters", "GFLOPs", "inputs", "metric"):
        number = column in ("parameters", "GFLOPs")
        table.add_column(column, justify="right" if number else "left", no_wrap=number, overflow="fold")
    for workload in chosen:
        inputs = ", ".join(f"{t.name} {t.datatype}{list(t.shape)}" for t in workload.inputs)
        table.add_row(
            workload.name,
            workload.task,
            ", ".join(workload.suites),
            "" if workload.parameters is None else f"{workload.parameters:,}",
            "" if workload.flops is None else f"{workload.flops / 1e9:.3g}",
            inputs,
            workload.quality.metric if workload.quality else "",
        )
    stdout().print(table)


def _list_figures(*, json: bool) -> None:
    rows = [
        {
            "figure": figure.tag,
            "short": figure.short or None,
            "unit": figure.unit.name,
            "better": figure.better,
            "help": figure.help,
        }
        for figure in registry().values()
    ]
    if json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("figure", "unit", "better", "meaning"):
        table.add_column(column, no_wrap=column == "figure")
    for row in rows:
        table.add_row(row["figure"], row["unit"], row["better"] or "", row["help"])
    stdout().print(table)


def _key(text: str) -> str:
    """Compare suites without regard to case, spaces and dashes."""
    return "".join(c for c in text.lower() if c.isalnum())


def _row(workload: Workload) -> dict[str, Any]:
    return {
        "workload": workload.name,
        "title": workload.title,
        "task": workload.task,
        "suites": list(workload.suites),
        "parameters": workload.parameters,
        "flops": workload.flops,
        "flops_without_padding": workload.flops_without_padding,
        "max_batch": workload.max_batch,
        "slo": str(workload.slo) if workload.slo else None,
        "inputs": [{"name": t.name, "datatype": t.datatype, "shape": list(t.shape)} for t in workload.inputs],
        "outputs": [{"name": t.name, "datatype": t.datatype, "shape": list(t.shape)} for t in workload.outputs],
        "metric": workload.quality and workload.quality.metric,
        "target": workload.quality and workload.quality.target,
        "dataset": workload.dataset,
        "citation": workload.citation,
        "locustfile": str(Path("loadgen", f"{workload.locustfile}.py")),  # of one's own the absolute path
    }
