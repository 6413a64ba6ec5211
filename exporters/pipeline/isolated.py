"""An export in a process of its own."""

from pathlib import Path
from typing import NamedTuple

from exporters.pipeline.export import ExportReport, export
from servemark import interrupts
from servemark.errors import ArtifactError
from servemark.machine.own_process import UNGUARDED, Ended, OwnProcess, a_command
from servemark.repository.entry import Entry
from servemark.workload import get


class Task(NamedTuple):
    """One entry to make."""

    workload: str
    engine: str
    precision: str
    repository: Path
    force: bool
    weights: str = ""
    """A file, or `seeded`; empty: what the repository remembers."""

    @property
    def entry(self) -> Entry:
        """Return the entry to be made."""
        return Entry(self.repository, self.workload, self.engine, self.precision)

    def export(self) -> ExportReport:
        """Make it in this process. Raises ServemarkError."""
        with interrupts.anywhere():
            return export(
                get(self.workload),
                self.engine,
                self.repository,
                precision=self.precision,
                force=self.force,
                weights=self.weights,
            )


def export_isolated(task: Task, timeout_s: float | None = None) -> ExportReport:
    """Make it in a process of its own: its memory ends with it and its peak is its own, and so is a crash.

    Raises ServemarkError.
    """
    with OwnProcess(a_command) as process:
        try:
            return process.run(task.export, timeout_s=timeout_s)
        except Ended as error:
            if error.unguarded:
                raise ArtifactError(
                    UNGUARDED, fix="put everything but imports and functions below that line"
                ) from error
            raise ArtifactError(
                f"the export did not end: {error}",
                fix=f"{task.entry.export_command()}, with more memory free",
            ) from error
