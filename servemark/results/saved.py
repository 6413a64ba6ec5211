"""A saved document with the files beside it: histograms and the machine's series."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import msgspec

from servemark import files
from servemark.errors import ResultError, parsing
from servemark.figures.registry import count_of
from servemark.results import directory
from servemark.results.kinds import Document, conformed, type_of
from servemark.results.schema.run import MachineSeries
from servemark.stats.histogram import Histogram

DOCUMENTS = (directory.RESULT_FILE, "comparison.json", "tuning.json", "suite.json")
"""Names of the documents; a result directory holds one of them."""


@dataclass(frozen=True)
class Saved:
    """One document. `folder` holds the other files, None if there are none; `parts` are the runs of a series."""

    name: str
    document: dict[str, Any]
    folder: Path | None = None
    parts: tuple["Saved", ...] = field(default=())

    @property
    def kind(self) -> str:
        """Kind of the document; `series` has no header."""
        return str(self.document.get("kind", "series"))

    def of(self, kind: type[Document]) -> Document:
        """Return the document as its type, like `Result`. Raises ResultError if it is of another kind."""
        directory.require_kind(self.document, self.name, kind)
        return cast(Document, self.document)

    @cached_property
    def histograms(self) -> dict[str, Histogram]:
        """Histograms `latency_us`, `service_time_us`, `schedule_delay_us`; empty if not saved. Raises ResultError."""
        if self.folder is None or not (self.folder / directory.HISTOGRAM_FILE).is_file():
            return {}
        with parsing(self.folder / directory.HISTOGRAM_FILE, ResultError, fix=directory.WHOLE):
            found = {name: Histogram.decode(text) for name, text in directory.read_histograms(self.folder).items()}
        for name in found.keys() & {"latency_us", "service_time_us"}:
            found[name].failed = count_of(self.document, "errors.count")
        return found

    @cached_property
    def machine_series(self) -> MachineSeries | None:
        """Series of the machine; None if none was kept. Raises ResultError."""
        file = self.folder / directory.SERIES_FILE if self.folder else None
        if file is None or not file.is_file():
            return None
        with parsing(file, ResultError, fix=directory.WHOLE):
            return conformed(msgspec.json.decode(files.text(file, files.DATA_BYTES)), MachineSeries)


def file_of(path: Path) -> Path:
    """Return the document of a result directory, or the file itself."""
    return next((path / name for name in DOCUMENTS if (path / name).is_file()), path)


def files_below(folder: Path) -> list[Path]:
    """Return the documents of a folder's result directories; the link to the newest is not a second one."""
    found = [file_of(each) for each in sorted(folder.iterdir()) if each.is_dir() and each.name != directory.LATEST]
    return [file for file in found if file.is_file()]


def runs_below(folder: Path) -> list[Path]:
    """Return those of them that are a result of one run."""
    return [file for file in files_below(folder) if file.name == directory.RESULT_FILE]


class NothingMeasuredError(ResultError):
    """A run that is under way, or was ended before it measured anything."""


def read_saved(path: Path) -> Saved:
    """Read a document by its directory or its file. Raises ResultError, and NothingMeasuredError of it."""
    file = file_of(path)
    document = directory.read(file)
    if document.get("kind") == "load" and document.get("verdict") is None:
        raise NothingMeasuredError(f"{file} has measured nothing yet", fix="name a run that has ended")
    if (kind := type_of(document)) is not None:
        directory.typed(document, file, kind)
    folder = file.resolve().parent
    return Saved(folder.name if file.name in DOCUMENTS else file.stem, document, folder)
