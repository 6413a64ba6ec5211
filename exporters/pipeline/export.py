"""Steps of every export around the engine's own: build, check, compare, describe, swap in; in a process of its own too.

The user's own file is placed as it is, with the golden samples of its import.
"""

import dataclasses
import functools
import hashlib
import json
import os
import re
import resource
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from exporters.onnx_passes.torch_export import whole_recurrences
from exporters.pipeline import config_pbtxt, parity
from exporters.pipeline.job import Job, Origin
from exporters.pipeline.provenance import made_by, packages
from exporters.pipeline.registry import SOURCE, Exporter, check_precision, exporter, route
from exporters.pipeline.steps import converting, loading, step
from exporters.pipeline.weights import SEEDED, Weights, remember, remembered
from servemark import interrupts
from servemark.errors import ArtifactError, OptionError
from servemark.machine.environment import int8_overflows
from servemark.machine.own_process import UNGUARDED, Ended, OwnProcess, a_command
from servemark.repository.entry import FULL, Entry, Golden, digest, read_golden
from servemark.workload import Workload, get
from servemark.workload.golden_check import agreement_figures
from servemark.workload.imported import GOLDEN
from servemark.workload.spec import Source

DRAFT = ".export-"
AGAIN = "`servemark import PATH --force` imports it again"
WEIGHTS = "weights_{}.bin"
"""Pattern for the names that an import gives the files of an ONNX file's weights."""
_IMPORTED = re.compile(
    r"model\.onnx|model\.pt2|weights_\d+\.bin|model\.savedmodel/(saved_model\.pb|variables/variables\.[\w.-]+)"
)
"""All that an import writes. Anything else beside a model may be a library, which Triton would load."""


@dataclass(frozen=True)
class ExportReport:
    """Result of an export: `config_kept` is True if a config.pbtxt edited by hand was left as it is."""

    workload: str
    engine: str
    precision: str
    folder: Path
    up_to_date: bool
    config_kept: bool
    manifest: Mapping[str, Any]
    outdated: str | None = None
    """Reason for replacing an entry that was there."""


def require_exporter(engine: str, precision: str) -> Exporter:
    """Look up an exporter that can be used here. Raises OptionError, ArtifactError where a package is missing."""
    module = exporter(engine)
    check_precision(engine, precision)
    packages(module)
    return module


def export(
    workload: Workload,
    engine: str,
    repository: Path,
    *,
    precision: str = FULL,
    force: bool = False,
    weights: str = "",
    remembering: bool = True,
) -> ExportReport:
    """Export a workload for an engine into the repository, unless an up-to-date artifact is there.

    The entry is made in a temporary folder beside its place and renamed, so it is there whole or not at all. An engine
    that reads ONNX takes the repository's own fp32 ONNX entry, which is exported first where it is not current. The
    repository remembers `weights`, a file or SEEDED, for its next exports of the workload, if `remembering`. Raises
    OptionError on an unknown engine or precision; ArtifactError when packages are missing, the model is not what its
    workload says, the engine cannot run it, the artifact lies outside the workload's agreement with eager PyTorch, or
    the repository cannot be written.
    """
    route(workload, engine, precision)
    module = require_exporter(engine, precision)
    entry = Entry(repository, workload.name, engine, precision)
    own = _weights(workload, repository, weights)
    if own:
        workload = dataclasses.replace(workload, trained=True)
    provenance = made_by(workload, module, own)
    config = config_pbtxt.render(
        workload, model=entry.model, engine=engine, artifact=module.ARTIFACT, device=module.DEVICE
    )
    manifest = _read_manifest(entry)
    try:
        keeps_config = not force and _is_edited(entry, manifest, config)
        has_config = not force and (keeps_config or (entry.config.exists() and entry.read_config() == config))
        reason = _outdated(entry, module, manifest, provenance) if manifest else None
        if has_config and manifest and not reason:
            if weights and remembering:
                remember(repository, workload.name, own)
            return ExportReport(workload.name, engine, precision, entry.folder, True, keeps_config, manifest)
        repository.mkdir(parents=True, exist_ok=True)
        sweep(repository, DRAFT)
        with tempfile.TemporaryDirectory(prefix=f"{DRAFT}{os.getpid()}-", dir=repository) as temporary:
            draft = Entry(Path(temporary), workload.name, engine, precision)
            manifest = _write(draft, repository, module, workload, config, provenance, own)
            if keeps_config:
                shutil.copy2(entry.config, draft.config)
            swap_in(draft.folder, entry.folder)
        if weights and remembering:
            remember(repository, workload.name, own)
    except OSError as error:
        raise ArtifactError(
            f"{entry.folder} cannot be written: {error}", fix=f"make room in, or check the permissions of, {repository}"
        ) from error
    return ExportReport(workload.name, engine, precision, entry.folder, False, keeps_config, manifest, reason)


def _write(
    draft: Entry,
    repository: Path,
    module: Exporter,
    workload: Workload,
    config: str,
    provenance: Mapping[str, Any],
    weights: Weights | None,
) -> dict[str, Any]:
    """Fill a draft of the entry and return its manifest."""
    started = time.perf_counter()
    draft.version.mkdir(parents=True)
    artifact = draft.version / module.ARTIFACT
    made_from = route(workload, draft.engine, draft.precision)
    job = Job(
        workload=workload,
        precision=draft.precision,
        path=artifact,
        origin_entry=functools.partial(_origin, workload, repository, made_from, weights) if made_from else None,
        known=None if made_from else _known(workload, repository, weights),
        weights=weights,
    )
    with step(f"{draft.model}: writing {module.ARTIFACT}"):
        if workload.source and not made_from:
            format_ = place(workload.source, draft.version)
        else:
            theirs = workload.source.facts["path"] if workload.source else workload.title if workload.module else None
            with (
                converting(draft, theirs) if theirs else nullcontext(),
                nullcontext() if workload.source else whole_recurrences(),
            ):
                format_ = module.write(job)
    agreement = workload.agreement.at(draft.precision)
    overflows = draft.precision == "int8" and module.DEVICE == "cpu" and int8_overflows()
    try:
        with step(f"{draft.model}: checking its answers"):
            with loading(draft):
                run = module.load(artifact, workload)
            discrepancies, checked = parity.measure(run, job.golden, workload, agreement, overflows=overflows)
        unchecked = None
    except parity.UncheckedError as error:
        discrepancies, checked, unchecked = {}, None, error.what
    draft.config.write_text(config)
    draft.write_golden(job.golden)
    manifest = {
        "workload": workload.name,
        "engine": draft.engine,
        "precision": draft.precision,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "parameters": workload.parameters,
        "artifact": module.ARTIFACT,
        "artifact_sha256": digest(draft.version),
        "config_sha256": hashlib.sha256(config.encode()).hexdigest(),
        **provenance,
        "reference": workload.reference,
        **({"source": workload.source.facts} if workload.source else {}),
        "format": format_,
        "agreement": asdict(agreement),
        "output_agreement": agreement_figures(checked, workload, draft.precision)[0] if checked else None,
        "unchecked": unchecked,
        "parity": {
            f"batch_{size}": {name: asdict(each) for name, each in outputs.items()}
            for size, outputs in discrepancies.items()
        },
        "seconds": round(time.perf_counter() - started, 3),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    draft.manifest.write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest


def _weights(workload: Workload, repository: Path, asked: str) -> Weights | None:
    """The user's weights for an export: those asked for, else those that the repository remembers."""
    if asked and workload.source:
        raise OptionError(f"{workload.name} is an imported file with its own weights", fix="leave out --weights")
    if asked == SEEDED:
        return None
    return Weights.of(Path(asked)) if asked else remembered(repository, workload.name)


def _origin(workload: Workload, repository: Path, engine: str, weights: Weights | None) -> Origin:
    """Export what an artifact is made from, where it is not current. Its weights are remembered with the artifact's."""
    asked = "" if workload.source else str(weights.file) if weights else SEEDED
    export(workload, engine, repository, weights=asked, remembering=False)
    entry = Entry(repository, workload.name, engine)
    golden = entry.read_golden()
    if golden is None:
        raise AssertionError(f"{entry.golden} has just been written")
    return Origin(entry.version / exporter(engine).ARTIFACT, golden)


def _known(workload: Workload, repository: Path, weights: Weights | None) -> Golden | None:
    """Take the golden samples of an import, or of a current ONNX entry: eager PyTorch would answer them once more."""
    if workload.source:
        return read_golden(workload.source.folder / GOLDEN, fix=AGAIN)
    entry, module = Entry(repository, workload.name, SOURCE), exporter(SOURCE)
    manifest = _read_manifest(entry)
    if manifest and not _outdated(entry, module, manifest, made_by(workload, module, weights)):
        return entry.read_golden()
    return None


def _read_manifest(entry: Entry) -> dict[str, Any] | None:
    """Read the manifest that is there; a damaged one is as good as none."""
    try:
        return entry.read_manifest()
    except ArtifactError:
        return None


def _is_edited(entry: Entry, manifest: Mapping[str, Any] | None, config: str) -> bool:
    """Tell whether the config.pbtxt that is there is neither the one written last time nor the one to be written."""
    if not entry.config.exists():
        return False
    generated = {hashlib.sha256(config.encode()).hexdigest(), (manifest or {}).get("config_sha256")}
    return digest(entry.config) not in generated


def _outdated(entry: Entry, module: Exporter, manifest: Mapping[str, Any], provenance: Mapping[str, Any]) -> str | None:
    """Say why an entry has to be made anew; None where it is whole and what would be made now."""
    artifact = entry.version / module.ARTIFACT
    try:
        whole = entry.config.exists() and artifact.exists() and entry.read_golden() is not None
    except ArtifactError:
        whole = False
    if not whole or manifest.get("artifact_sha256") != digest(entry.version):
        return "its files are not whole"
    if manifest.get("source_sha256") != provenance["source_sha256"]:
        return "its workload has changed since"
    if manifest.get("weights") != provenance["weights"]:
        return "its weights are others now"
    before = manifest.get("versions") or {}
    changed = [
        f"{name} {before.get(name, 'unknown')} -> {version}"
        for name, version in provenance["versions"].items()
        if before.get(name) != version
    ]
    return ", ".join(changed) or None


def sweep(folder: Path, prefix: str) -> None:
    """Remove the drafts that killed commands have left in a folder: `prefix`, the process and a dash begin a name."""
    for draft in folder.glob(f"{prefix}*"):
        owner = draft.name.removeprefix(prefix).partition("-")[0]
        if not (owner.isdecimal() and psutil.pid_exists(int(owner))):
            shutil.rmtree(draft, ignore_errors=True)


def swap_in(draft: Path, folder: Path) -> None:
    """Put a draft in a folder's place; what it lacks of the one before (labels, warm-up data) moves along."""
    replaced = draft.with_name(".replaced")
    with interrupts.finishing():
        if not folder.exists():
            draft.rename(folder)
            return
        folder.rename(replaced)
        try:
            draft.rename(folder)
        except OSError:
            replaced.rename(folder)
            raise
        for item in replaced.iterdir():
            if not (folder / item.name).exists():
                item.rename(folder / item.name)


def sha256_of(kept: Path) -> str:
    """Digest what an import keeps: of one file its own, as `sha256sum` gives it, of several all with their names."""
    files = [path for path in kept.rglob("*") if path.is_file()]
    return digest(files[0] if len(files) == 1 else kept)


def place(source: Source, version: Path) -> Mapping[str, object]:
    """Put the file, and what lies beside it, into a version directory. Raises ArtifactError where it was changed."""
    kept = source.path.parent
    if not source.path.exists() or sha256_of(kept) != source.facts["sha256"]:
        raise ArtifactError(f"{kept} is not what was imported: it was changed since, or is not whole", fix=AGAIN)
    for path in kept.rglob("*"):
        name = path.relative_to(kept).as_posix()
        if path.is_symlink() or (not path.is_dir() and not _IMPORTED.fullmatch(name)):
            raise ArtifactError(f"{kept} holds {name!r}, which no import writes there", fix=AGAIN)
    # No hard links: the onnx package refuses external data that has two names.
    shutil.copytree(kept, version, copy_function=shutil.copyfile, dirs_exist_ok=True)
    return {"imported": source.kind}


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
