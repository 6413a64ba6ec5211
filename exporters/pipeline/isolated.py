"""An export in a process of its own."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

from exporters.pipeline.export import ExportReport, export
from servemark.errors import ArtifactError
from servemark.repository.entry import Entry
from servemark.workload import get


class Task(NamedTuple):
    """One entry to make."""

    workload: str
    engine: str
    precision: str
    repository: Path
    force: bool

    @property
    def entry(self) -> Entry:
        """Where it is made."""
        return Entry(self.repository, self.workload, self.engine, self.precision)

    def export(self) -> ExportReport:
        """Make it in this process. Raises ServemarkError."""
        return export(get(self.workload), self.engine, self.repository, precision=self.precision, force=self.force)


def export_isolated(task: Task) -> ExportReport:
    """Make it in a process of its own: its memory ends with it and its peak is its own, and so is a crash."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        try:
            return process.submit(task.export).result()
        except BrokenProcessPool as error:
            raise ArtifactError(
                "the export was killed, as the system does when memory runs out",
                fix=f"{task.entry.export_command()}, with more memory free",
            ) from error
