"""An export in a process of its own."""

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

from exporters.pipeline.export import ExportReport, export
from servemark import interrupts
from servemark.errors import ArtifactError
from servemark.repository.entry import Entry
from servemark.workload import get

GRACE_S = 3.0
"""Time for an interrupted export to remove its draft; the next export removes a draft that is left."""


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


def export_isolated(task: Task) -> ExportReport:
    """Make it in a process of its own: its memory ends with it and its peak is its own, and so is a crash."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=_begin, max_tasks_per_child=1) as process:
        try:
            with interrupts.anywhere():
                return process.submit(task.export).result()
        except KeyboardInterrupt:
            for child in multiprocessing.active_children():
                child.terminate()
                child.join(GRACE_S)
                child.kill()
            raise
        except BrokenProcessPool as error:
            raise ArtifactError(
                "the export was killed, as the system does when memory runs out",
                fix=f"{task.entry.export_command()}, with more memory free",
            ) from error


def _begin() -> None:
    """Note signals, and end with the command."""
    interrupts.install()
    interrupts.end_with_parent(signal.SIGTERM)
