"""The server of a run: the one that is given, one that runs already, or one of its own, and the entries that it serves.

An entry that is missing, or not current, is exported first. Settings of a served model are for one run alone.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loadgen.load.load_config import LoadConfig, Startup
from loadgen.targets.http import control_of
from loadgen.transport.server_url import METRICS
from servemark.documents.request import RunRequest
from servemark.errors import OptionError, ServerError
from servemark.machine.scratch import scratch_folder
from servemark.output import note
from servemark.paths import MODEL_REPOSITORY
from servemark.quantities import one_of
from servemark.repository.entry import CONFIG, Entry
from servemark.repository.model_config import Settings
from servemark.repository.names import checked_model
from servemark.workload import UnknownWorkloadError, get

if TYPE_CHECKING:
    from servers import Server


def entries(workloads: list[str], engine: str, repository: Path, precision: str) -> list[Entry]:
    """The repository entries of workloads. Raises OptionError, ArtifactError naming the export command."""
    from servers.engines import engine_names

    found = [Entry(repository, get(name).name, engine, precision) for name in workloads]
    one_of("engine", engine, engine_names())
    for entry in found:
        entry.require()
    return found


def export_first(workload: str, engine: str, precision: str, repository: Path, label: str) -> None:
    """Export what is not there or not current, and say so. Raises ArtifactError, OptionError."""
    from exporters.pipeline.export import Task, export_isolated

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


@contextlib.contextmanager
def server_for(configs: Sequence[LoadConfig], more: Sequence[str] = ()) -> Iterator[list[LoadConfig]]:
    """Yield the configurations at a server of all their models.

    That is the one of the URL that they give; else one that already serves the one model at the default port, else an
    embedded one. A device, options or instances are for a server of our own, so a model that must have some is never
    taken from another one, and for a cold start there is a new one each time; an embedded Triton gets `more` flags.
    Raises OptionError, ArtifactError, ServerError.
    """
    first = configs[0]
    given, settings, cold = bool(first.server.url), Settings.of(first.server), first.server.cold_start
    if given and cold:
        raise OptionError(
            f"--cold-start starts a server of its own, and --url names {first.url}", fix="leave out --url"
        )
    if given and settings:
        raise OptionError(
            f"{first.url} has its own settings", fix="leave out --url, or --device, --engine-option, --instances"
        )
    if given or (len(configs) == 1 and not settings and not cold and _serves(first)):
        if not given:
            note(f"using the server at {first.url}")
        yield list(configs)
        return
    import servers

    names = list(dict.fromkeys(config.workload.name for config in configs))
    export_where_needed(names, first.engine, first.model_repository, first.precision)
    found = entries(names, first.engine, first.model_repository, first.precision)
    with (
        repository_with(first.model_repository, found, settings) as repository,
        servers.open_server(
            "auto",
            repository,
            [entry.model for entry in found],
            otlp=first.live.otlp if first.live.otlp_sample else "",
            more=more,
        ) as server,
    ):
        address = address_of(server, first.protocol)
        note(f"serving at {address.replace(METRICS, ', metrics at ')}")
        startup = Startup(load_s=server.startup_s, ready_ns=time.monotonic_ns()) if cold else None
        yield [replace(config.at(address), startup=startup) for config in configs]
        note_death(server)


@contextlib.contextmanager
def served_by_hand(request: RunRequest) -> Iterator[str | None]:
    """Serve the entry of the model repository that a request names where no workload has its name; yield its URL.

    Such an entry is written by hand, and what it takes is asked of its server. None: the request names no such entry.
    Raises OptionError, ServerError.
    """
    name, server = request.workload, request.server
    repository = Path(server.model_repository or MODEL_REPOSITORY)
    if server.url or not name or _is_workload(name) or not (repository / checked_model(name) / CONFIG).is_file():
        yield None
        return
    if server.cold_start or server.in_process:
        raise OptionError(
            f"{name} is an entry that is written by hand, of which --cold-start and --in-process know nothing",
            fix="leave them out",
        )
    import servers

    with servers.open_server("auto", repository, [name]) as running:
        address = address_of(running, server.protocol or "http")
        note(f"serving {name} at {address.replace(METRICS, ', metrics at ')}")
        yield address
        note_death(running)


@contextlib.contextmanager
def one_server_for(config: LoadConfig) -> Iterator[LoadConfig]:
    """Yield the configuration at one server of its model, where requests are not shared out. Raises as `server_for`."""
    if len(config.urls) > 1:
        raise OptionError(f"--url names {len(config.urls)} servers, and this command asks one", fix="name one of them")
    with server_for([config]) as [served]:
        yield served


def _is_workload(name: str) -> bool:
    try:
        get(name)
    except UnknownWorkloadError:
        return False
    return True


def note_death(server: "Server") -> None:
    """Say why a server has ended, where it has: its runs have their verdict, INVALID, and no reason."""
    try:
        server.check()
    except ServerError as error:
        note(str(error))


def address_of(server: "Server", protocol: str) -> str:
    """A server of our own as --url names it."""
    metrics = f"{METRICS}{server.metrics}" if server.metrics else ""
    return f"{protocol}://{server.grpc if protocol == 'grpc' else server.http}{metrics}"


def _serves(config: LoadConfig) -> bool:
    """Return True if the model is served at the configured URL, which is the default."""
    try:
        control_of(config).require_model(config.model, config.workload, "")
    except ServerError:
        return False
    return True
