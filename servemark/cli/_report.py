"""Shared parts of `servemark report` and the commands with `--report`: documents to read, a page to write."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from servemark.documents.commands import Reported
from servemark.documents.commands.measure import Asked
from servemark.documents.saved_load import rate_of
from servemark.errors import ResultError
from servemark.output import note
from servemark.paths import shown
from servemark.results import directory
from servemark.results.saved import NothingMeasuredError, Saved, file_of, files_below, read_saved
from servemark.results.schema.run import Result
from servemark.search.points import curve
from servemark.views.render.html import page
from servemark.views.render.terminal import show

PAGE = "report.html"


def read_all(paths: Sequence[Path]) -> list[Saved]:
    """The documents that the paths name; the link to the newest result is not a second one. Raises ResultError."""
    named = dict.fromkeys(path.resolve() if path.is_symlink() else path for path in paths)
    return [saved for path in named for saved in _read(path)]


def side_by_side(documents: list[Saved]) -> list[Saved]:
    """Several runs have a row and a line each in front, and several characterised suites a bar each."""
    if len(documents) > 1 and _only(documents, "load"):
        return [series(documents), *documents]
    if len(documents) > 1 and _only(documents, "characterisation"):
        return [Saved("suites", {"kind": "suites"}, None, tuple(documents)), *documents]
    return documents


def each(documents: Sequence[Saved]) -> list[Saved]:
    """The documents, the runs of a series one by one."""
    return [part for saved in documents for part in (saved.parts or (saved,))]


def series(runs: Sequence[Saved]) -> Saved:
    """Runs side by side, with their curve where they differ by their rate only."""
    results: list[Result] = [run.document for run in runs]  # type: ignore[misc]
    document: dict[str, Any] = {"results": results}
    subjects = {(r["workload"], r["engine"], r["precision"], r["device"], r["batch_size"]) for r in results}
    rates = {rate_of(r) for r in results}
    at_one_rate = None not in rates and not any({"max_rate", "mix"} & result.keys() for result in results)
    if len(subjects) == 1 and len(rates) > 1 and at_one_rate:
        document["curve"] = curve(results)
    return Saved("runs", document, None, tuple(runs))


def write_page(file: Path, documents: Sequence[Saved], *, quiet: bool = False) -> None:
    """Write the page and say where it is. Raises ResultError."""
    first, *more = dict.fromkeys(saved.name for saved in each(documents))
    title = f"servemark: {first}" + (f" and {len(more)} more" if more else "")
    directory.write_atomically(file, page(title, documents))
    if not quiet:
        note(f"page: {shown(file)}")


def write_report(folder: Path, *, quiet: bool = False) -> None:
    """Write the page of a result beside it. What was measured stands, also where its page cannot be written."""
    try:
        write_page(folder / PAGE, _read(folder), quiet=quiet)
    except ResultError as error:
        note(f"no {PAGE}: {error}")


def present(document: Any, *, json: bool) -> None:
    """Print a document as JSON, or in words."""
    if json:
        directory.print_json(document)
    else:
        show(document)


def conclude(folder: Path, document: Any, options: Reported | Asked) -> None:
    """Print what a command has measured, and where it lies; its page is written beside it where that is asked for."""
    present(document, json=options.json)
    note(f"result: {shown(folder)}")
    if options.report:
        write_report(folder)


def _read(path: Path) -> list[Saved]:
    """A document, or those of a folder that has none of its own: runs together are a series."""
    if not path.is_dir() or file_of(path).is_file():
        return [read_saved(path)]
    found = list[Saved]()
    for file in files_below(path):
        try:
            found.append(read_saved(file))
        except NothingMeasuredError as error:
            note(f"left out: {error.what}")
    if not found:
        raise ResultError(f"{path} holds no result", fix="name a result directory")
    return [series(found)] if _only(found, "load") else found


def _only(documents: Sequence[Saved], kind: str) -> bool:
    return all(saved.kind == kind for saved in documents)
