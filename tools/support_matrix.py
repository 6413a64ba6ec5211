"""Try the export of every workload on every engine in every precision, and keep the outcomes.

    python -m tools.support_matrix --size tiny
    python -m tools.support_matrix --size full --engine openvino --precision fp32
    python -m tools.support_matrix --libraries
    python -m tools.support_matrix --families --engine onnxruntime

Writes docs/reference/support.json after each try and support.md beside it, so that an interrupted run goes on where it
was, and both once more at the end, also where nothing was left to try. A try at full size replaces the tiny variant's.
A crash or a time-out ends the worker process, not the run.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import exporters
from exporters import exporter
from servemark.documents.request import PRECISIONS
from servemark.errors import ArtifactError, ServemarkError
from servemark.hub.blocks import description
from servemark.machine import environment
from servemark.machine.environment import int8_overflows
from servemark.machine.own_process import Ended, OwnProcess
from servemark.paths import CHECKOUT, MODEL_REPOSITORY
from servemark.repository.entry import FULL, Entry
from servemark.results.directory import write_atomically
from servemark.workload import Workload, get
from servemark.workload.imported import MODELS, models_folder
from servemark.workload.registry import zoo
from servemark.workload.spec import SEPARATOR
from tests.support.hub_folders import FOLDERS, NAMES, write_folder

SOURCE = "onnxruntime"
KINDS = {
    "differs from eager PyTorch": "agreement",
    "cannot run a batch": "run",
    "cannot convert": "conversion",
    "quantise": "conversion",
    "cannot run": "conversion",
    "has no": "device",
}
"""Class of each reason, by a phrase of the ArtifactError."""
BUILT = ("layers", "plan_mb", "build_s")
"""Facts of a plan that is made where it cannot be run."""
UNTRIED = {"ok": None, "kind": "untried", "reason": "not tried yet"}
NO_GPU = {"ok": None, "kind": "device", "reason": "not tried: no GPU"}
NO_VNNI = "not told: it differs from eager PyTorch on a CPU without VNNI, and was not tried on another"
OF_LIBRARIES = (*(f"transformers/{name}" for name in FOLDERS), *NAMES)
"""Models of libraries: those of Transformers are small ones of its architectures."""
ITS_PRECISION = {"tensorrt": "fp16", "tensorrt_rtx": "fp16"}
"""Precision in which an engine is tried with them, where it is not fp32."""
RECORD = CHECKOUT / "docs" / "reference" / "support.json"
MARKDOWN = CHECKOUT / "docs" / "reference" / "support.md"
HEAD = """\
# What runs on which engine

`python -m tools.support_matrix` tries each export and compares the artifact with eager PyTorch. It writes this page
from [support.json](support.json), which has how far the outputs agree. {machine}.

- A cell lists the precisions that run. `*` means that only the tiny variant was tried: the same graph, small widths.
- `not int8` means that `servemark export` fails with exit code 3, because the outputs differ by more than the
  [tolerance](engines.md#tolerances). A number leads to another [reason](#reasons). Rounding averages out less in a tiny
  variant, so its "not" says little about the model at full size.
- What is not listed was not tried, or the engine refuses that precision for all models. No engine falls back to another
  precision. [engines.md](engines.md) says what each means.
- CPUs without VNNI may saturate in int8. What failed on such a CPU alone counts as not tried.
- `built` means that the engine's own parser and builder made the plans on a machine without a GPU. No GPU has run them
  yet. The record has their layers, sizes and seconds.
"""
OF_LIBRARIES_HEAD = """\
## Models of libraries

`python -m tools.support_matrix --libraries` tries the models that the tests name: each an architecture of its own.
Those of Transformers are small; the others have their own size. A count is of those tried so far.
`--families --engine onnxruntime` tries the smallest classifier of each family of timm, in an order that was drawn once,
so that a part of them is a sample.
"""


class Cell(NamedTuple):
    """One try."""

    workload: str
    engine: str
    precision: str


def main() -> None:
    """Try what is asked for and has not been tried."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=["tiny", "full"], default="tiny")
    parser.add_argument("--engine", action="append", choices=exporters.engines())
    parser.add_argument("--precision", action="append")
    parser.add_argument("--workload", action="append", choices=[*zoo(), *OF_LIBRARIES])
    parser.add_argument("--libraries", action="store_true", help="models of libraries, each in one precision")
    parser.add_argument("--families", action="store_true", help="the smallest classifier of each family of timm")
    parser.add_argument("--again", action="store_true", help="also what has been tried")
    parser.add_argument("--limit-s", type=float, default=900.0, help="longest try")
    parser.add_argument("--model-repository", type=Path, default=MODEL_REPOSITORY, help="where ONNX entries are")
    options = parser.parse_args()
    if options.size == "tiny" and (lacking := [name for name in options.workload or () if not _is_sized(name)]):
        parser.error(f"no tiny variant has {', '.join(lacking)}: --size full tries it")
    record = Record(options.size)
    of_libraries = families() if options.families else OF_LIBRARIES if options.libraries else None
    chosen = options.workload or of_libraries or [*zoo()]
    cells = [
        Cell(name, engine, precision)
        for name in sorted(chosen, key=_cost)
        if options.size == "full" or _is_sized(name)
        for engine in options.engine or exporters.engines()
        for precision in exporters.precisions(engine)
        if precision in (options.precision or _usual(name, engine))
    ]
    todo = [cell for cell in cells if options.again or not record.has(cell)]
    for cell, found in _tries(todo, options.size, options.model_repository, options.limit_s):
        record.add(cell, found)
        print(f"{cell.workload} {cell.engine} {cell.precision}: {found.get('reason', 'ok')}", flush=True)
    record.write()


def families() -> list[str]:
    """Name the smallest classifier of each family of timm, in an order that is always the same."""
    import timm
    import torch

    def parameters(model: str) -> int:
        with torch.device("meta"):
            network: Any = timm.create_model(model)
        # What gives features alone has no classes, and comes last.
        return sum(each.numel() for each in network.parameters()) if network.num_classes else sys.maxsize

    found = [min(timm.list_models(module=family), key=parameters) for family in sorted(timm.list_modules())]
    return [f"timm/{model}" for model in np.random.default_rng(0).permutation(found)]


def _is_of_library(name: str) -> bool:
    return "/" in name


def _is_sized(name: str) -> bool:
    """Tell whether a model can be tried as tiny: it has a tiny variant, or is of a library, in the one size it has."""
    return _is_of_library(name) or get(name).tiny is not None


def _cost(name: str) -> int:
    return 0 if _is_of_library(name) else get(name).flops or 0


def _usual(name: str, engine: str) -> tuple[str, ...]:
    return (ITS_PRECISION.get(engine, FULL),) if _is_of_library(name) else exporters.precisions(engine)


class Record:
    """docs/reference/support.json, and support.md made from it."""

    def __init__(self, size: str) -> None:
        self._size = size
        self._cells = _read()

    def has(self, cell: Cell) -> bool:
        """Return True if the cell has been tried at this size or a larger one."""
        found = self._cells.get(cell)
        return found is not None and found["ok"] is not None and found["size"] in {self._size, "full"}

    def add(self, cell: Cell, found: dict[str, Any]) -> None:
        """Keep one try and write both files."""
        self.write({cell: {**cell._asdict(), "size": self._size, **found}})

    def write(self, found: Mapping[Cell, dict[str, Any]] = MappingProxyType({})) -> None:
        """Write both files, with every cell that there is by now; another run may have written meanwhile."""
        self._cells |= {**_read(), **found}
        machine = environment.collect()
        for each in (Cell(n, e, p) for n in zoo() for e in exporters.engines() for p in exporters.precisions(e)):
            untried = UNTRIED if machine["gpus"] or exporters.exporter(each.engine).WITHOUT_GPU else NO_GPU
            self._cells.setdefault(each, {**each._asdict(), "size": self._size, **untried})
        record = {
            "created": datetime.now(UTC).date().isoformat(),
            "cpu": machine["cpu"],
            "python": machine["python"],
            "packages": _versions(machine["packages"]),
            "cells": [self._cells[cell] for cell in sorted(self._cells)],
        }
        write_atomically(RECORD, json.dumps(record, indent=1) + "\n")
        write_atomically(MARKDOWN, render(record))


def _read() -> dict[Cell, dict[str, Any]]:
    """Read the record, if there is one."""
    return _by_cell(json.loads(RECORD.read_text())["cells"]) if RECORD.exists() else {}


def _by_cell(cells: Sequence[dict[str, Any]]) -> dict[Cell, dict[str, Any]]:
    return {Cell(cell["workload"], cell["engine"], cell["precision"]): cell for cell in cells}


def _versions(packages: dict[str, str]) -> dict[str, str]:
    wanted = ("torch", "onnx", "onnxruntime", "openvino", "nncf", "tensorflow", "tensorflow-cpu", "tensorrt")
    return {name: packages[name] for name in (*wanted, "tensorrt-rtx-cu13-bindings") if name in packages}


def _tries(cells: list[Cell], size: str, source: Path, limit_s: float) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Try cells, each in a process of its own; those of one library's model share one.

    All of them in one would fill the memory with what frameworks keep.
    """
    gpus = environment.collect()["gpus"]
    with tempfile.TemporaryDirectory(prefix="servemark-support-") as folder, contextlib.ExitStack() as ending:
        repository = Path(folder) / "repository"
        before = ""
        for cell in cells:
            if not (gpus or exporters.exporter(cell.engine).WITHOUT_GPU):
                yield cell, NO_GPU
                continue
            name = cell.workload if size == "full" or _is_of_library(cell.workload) else f"{cell.workload}_tiny"
            _link(name, source, repository)
            if not _is_of_library(name) or name != before:
                ending.close()
                process = ending.enter_context(OwnProcess())
            before = name
            try:
                found = process.run(attempt, name, cell.engine, cell.precision, repository, timeout_s=limit_s)
            except Ended as error:
                found = {"ok": False, "kind": "ended", "reason": str(error)}
            yield cell, found
            if (cell.engine, cell.precision) != (SOURCE, FULL):
                made = Entry(repository, name.replace("/", SEPARATOR), cell.engine, cell.precision)
                shutil.rmtree(made.folder, ignore_errors=True)


def attempt(workload: str, engine: str, precision: str, repository: Path) -> dict[str, Any]:
    """Export once: how far the artifact lies from eager PyTorch, or the reason why there is none."""
    try:
        report = exporters.export(_found(workload, repository.parent), engine, repository, precision=precision)
    except ArtifactError as error:
        kind = next((kind for words, kind in KINDS.items() if words in error.what), "other")
        return _refused(kind, _short(error.what, workload), precision)
    except ServemarkError as error:
        return {"ok": False, "kind": "other", "reason": _short(error.what, workload)}
    except Exception as error:
        return {"ok": False, "kind": "other", "reason": _short(f"{type(error).__name__}: {error}", workload)}
    agreement = report.manifest["output_agreement"]
    if agreement is None:
        return {"ok": True, "built": {key: report.manifest["format"][key] for key in BUILT}}
    return {
        "ok": True,
        "max_rel": agreement["max_rel_error"],
        **{key: agreement[key] for key in ("cosine_min", "samples", "top1_samples")},
        **{key: report.manifest[key] for key in ("seconds", "peak_rss_mib")},
    }


def _found(name: str, folder: Path) -> Workload:
    """Find a workload; one of a library is described below `folder`, and a small one of Transformers written there."""
    if not _is_of_library(name):
        return get(name)
    os.environ[MODELS] = str(folder / "models")
    library, _, model = name.partition("/")
    kept = name.replace("/", SEPARATOR)
    if library == "transformers" and not (models_folder() / kept).exists():
        description.imported(write_folder(model, models_folder()), kept, {}, force=False)
    return get(name)


def _refused(kind: str, reason: str, precision: str) -> dict[str, Any]:
    """Describe a refusal that is about the model; one that is about this machine's CPU stays untried."""
    if precision == "int8" and kind == "agreement" and int8_overflows():
        kind, reason = "device", NO_VNNI
    return {"ok": None if kind == "device" else False, "kind": kind, "reason": reason}


def _short(what: str, workload: str) -> str:
    """One line without the workload's name, so that equal reasons are one."""
    workload = workload.replace("/", SEPARATOR)
    line = " ".join(what.replace(f"{workload}: ", "").replace(f" {workload}", "").split())
    return line if len(line) <= 240 else line[:237] + "..."


def _link(name: str, source: Path, repository: Path) -> None:
    """Let an ONNX entry that is there be taken; a stale one is exported anew, beside it."""
    entry = Entry(repository, name, SOURCE)
    theirs = Entry(source, name, SOURCE).folder
    if theirs.exists() and not entry.folder.exists():
        repository.mkdir(exist_ok=True)
        entry.folder.symlink_to(theirs.resolve())


def render(record: Mapping[str, Any]) -> str:
    """Write the page."""
    cells = _by_cell(record["cells"])
    cells_of_libraries = {cell: cells.pop(cell) for cell in list(cells) if _is_of_library(cell.workload)}
    pairs = sorted({(engine, precision) for _, engine, precision in cells}, key=lambda each: PRECISIONS.index(each[1]))
    engines = {engine: [one for each, one in pairs if each == engine] for engine in sorted({each for each, _ in pairs})}
    reasons: list[str] = []
    packages = ", ".join(f"{name} {version}" for name, version in record["packages"].items())
    machine = f"Last run {record['created']}: {record['cpu']}, Python {record['python']}, {packages}"
    tried = sorted({engine for (_, engine, _), cell in cells.items() if cell["ok"] is not None})
    built = {engine for (_, engine, _), cell in cells.items() if "built" in cell}
    rows = [
        [workload, *(_cell([cells.get(Cell(workload, each, one)) for one in engines[each]], reasons) for each in tried)]
        for workload in sorted({workload for workload, _, _ in cells})
    ]
    refused = [
        f"- No {precision} on {engine}: {reason}."
        for engine in engines
        for precision, reason in exporter(engine).REFUSED.items()
    ]
    numbered = [f"{number}. {text}" for number, text in enumerate(reasons, 1)]
    return "\n".join(
        [
            HEAD.format(machine=machine),
            _counts(cells, engines),
            _table(["workload", *(f"{each}, built" if each in built else each for each in tried)], rows),
            *_libraries(cells_of_libraries),
            "## Precisions that an engine refuses\n",
            *refused,
            "\n## Reasons\n",
            *numbered,
            "",
        ]
    )


def _counts(cells: Mapping[Cell, Mapping[str, Any]], engines: Mapping[str, Sequence[str]]) -> str:
    rows = []
    for engine, precisions in engines.items():
        for precision in precisions:
            tried = [
                cell for (_, e, p), cell in cells.items() if (e, p) == (engine, precision) and cell["ok"] is not None
            ]
            full = [cell for cell in tried if cell["size"] == "full"]
            rows.append([engine, precision, _share(full), _share([cell for cell in tried if cell not in full])])
    return _table(["engine", "precision", "run at full size", "run as tiny only"], rows)


def _libraries(cells: Mapping[Cell, Mapping[str, Any]]) -> list[str]:
    """Count the models of each library that an engine takes, and list those that it does not."""
    tried = {key: cell for key, cell in cells.items() if cell["ok"] is not None}
    columns = sorted({(engine, precision) for _, engine, precision in tried})
    rows = []
    for library in sorted({name.partition("/")[0] for name, _, _ in tried}):
        of_it = [(column, cell) for (name, *column), cell in tried.items() if name.startswith(f"{library}/")]
        rows.append([library, *(_share([cell for place, cell in of_it if tuple(place) == each]) for each in columns)])
    refused = [
        f"- {name} in {engine} {precision}: {cell['reason']}."
        for (name, engine, precision), cell in tried.items()
        if not cell["ok"]
    ]
    if not tried:
        return []
    table = _table(["library", *map(" ".join, columns)], rows)
    return [OF_LIBRARIES_HEAD, table, *([*refused, ""] if refused else [])]


def _share(cells: Sequence[Mapping[str, Any]]) -> str:
    built = "built: " if any("built" in cell for cell in cells) else ""
    return f"{built}{sum(bool(cell['ok']) for cell in cells)} of {len(cells)}" if cells else "-"


def _cell(cells: Sequence[Mapping[str, Any] | None], reasons: list[str]) -> str:
    """Return the precisions of one workload on one engine that run, and those that do not with their reasons."""
    runs, fails = [], []
    for cell in cells:
        if cell is None or cell["ok"] is None:
            continue
        tiny = "\\*" if cell["size"] == "tiny" else ""
        if cell["ok"]:
            runs.append(f"{cell['precision']}{tiny}")
            continue
        words = f"not {cell['precision']}{tiny}"
        if cell["kind"] != "agreement":
            text = str(cell["reason"]).replace("|", "\\|")
            if text not in reasons:
                reasons.append(text)
            words += f" [{reasons.index(text) + 1}]"
        fails.append(words)
    return ", ".join([" ".join(runs), *fails] if runs else fails) or "-"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    main()
