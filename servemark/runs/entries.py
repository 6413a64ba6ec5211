"""The repository entries of a run, and settings of a served model for this run alone."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from servemark.machine.scratch import scratch_folder
from servemark.output import note
from servemark.quantities import one_of
from servemark.repository.entry import FULL, Entry
from servemark.repository.model_config import Settings
from servemark.repository.names import checked_model
from servemark.workload import get


def entries(workloads: list[str], engine: str, repository: Path, precision: str = FULL) -> list[Entry]:
    """The repository entries of workloads. Raises OptionError, ArtifactError naming the export command."""
    from servers.engines import engine_names

    found = [Entry(repository, get(name).name, engine, precision) for name in workloads]
    one_of("engine", engine, engine_names())
    for entry in found:
        entry.require()
    return found


def export_first(workload: str, engine: str, precision: str, repository: Path, label: str) -> None:
    """Export what is not there or not current, and say so. Raises ArtifactError, OptionError."""
    from exporters.pipeline.isolated import Task, export_isolated

    report = export_isolated(Task(workload, engine, precision, repository, force=False))
    if not report.up_to_date:
        why = f"exported anew ({report.outdated})" if report.outdated else "exported first"
        note(f"{label}: {why}, {report.manifest['seconds']:.1f} s")


def export_where_needed(workloads: Sequence[str], engine: str, repository: Path, precision: str) -> None:
    """Export the workloads that have no entry, or one made of another source. Raises ArtifactError, OptionError."""
    from exporters import require_exporter

    for workload in workloads:
        entry = Entry(repository, workload, engine, precision)
        if needs_export(entry):
            require_exporter(engine, precision)
            export_first(workload, engine, precision, repository, entry.model)


def needs_export(entry: Entry) -> bool:
    """Return True without an entry, or if the workload has changed since: the old network could refuse new requests."""
    from exporters.pipeline.provenance import source_digest

    if not entry.folder.exists():
        return True
    source = (entry.read_manifest() or {}).get("source_sha256")
    return source is not None and source != source_digest(get(entry.workload))


def find_models(names: list[str], engine: str, repository: Path, precision: str) -> tuple[list[str], list[Entry]]:
    """Models by their names in Triton: of workloads their entries, and by hand anything else with a configuration.

    Raises OptionError, ArtifactError naming the export command.
    """
    by_hand = [name for name in map(checked_model, names) if (repository / name / "config.pbtxt").is_file()]
    return by_hand, entries([name for name in names if name not in by_hand], engine, repository, precision)


@contextlib.contextmanager
def repository_with(repository: Path, entries: Sequence[Entry], settings: Settings) -> Iterator[Path]:
    """Yield the repository, or one with the entries' settings changed. Raises ArtifactError on a malformed config."""
    if not settings:
        yield repository
        return
    with scratch_folder("repository") as folder:
        for entry in entries:
            entry.overlay(settings.apply(entry.read_config()), folder)
        yield folder
