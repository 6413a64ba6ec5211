"""What every export does around the engine's own step: build, check, compare, describe, swap in."""

import hashlib
import json
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from exporters.onnx_passes.recurrence import whole_recurrences
from exporters.pipeline import config_pbtxt, parity
from exporters.pipeline.job import Job
from exporters.pipeline.provenance import digest, made_by, packages
from exporters.pipeline.registry import Exporter, check_precision, exporter
from servemark import interrupts
from servemark.errors import ArtifactError
from servemark.repository.entry import FULL, Entry, Golden
from servemark.workload import Workload

SOURCE = "onnxruntime"
"""The engine whose fp32 artifact, ONNX, the converters read."""
DRAFT = ".export-"


@dataclass(frozen=True)
class ExportReport:
    """What an export did: `config_kept` says that a config.pbtxt edited by hand was left as it is."""

    workload: str
    engine: str
    precision: str
    folder: Path
    up_to_date: bool
    config_kept: bool
    manifest: Mapping[str, Any]


def require(engine: str, precision: str) -> Exporter:
    """Look up an exporter that can be used here. Raises OptionError, ArtifactError where a package is missing."""
    module = exporter(engine)
    check_precision(engine, precision)
    packages(module)
    return module


def export(
    workload: Workload, engine: str, repository: Path, *, precision: str = FULL, force: bool = False
) -> ExportReport:
    """Export a workload for an engine into the repository, unless an up-to-date artifact is there.

    The entry is made in a temporary folder beside its place and renamed, so it is there whole or not at all. An engine
    that reads ONNX takes the repository's own fp32 ONNX entry, which is exported first where it is not current. Raises
    OptionError on an unknown engine or precision; ArtifactError when packages are missing, the model is not what its
    workload says, the engine cannot run it, the artifact lies outside the workload's agreement with eager PyTorch, or
    the repository cannot be written.
    """
    module = require(engine, precision)
    entry = Entry(repository, workload.name, engine, precision)
    by = made_by(workload, module)
    rendered = config_pbtxt.render(
        workload, model=entry.model, engine=engine, artifact=module.ARTIFACT, device=module.DEVICE
    )
    previous = _read_previous(entry)
    try:
        kept = not force and _is_edited(entry, previous, rendered)
        configured = kept or (entry.config.exists() and entry.config.read_text() == rendered)
        if not force and configured and previous and _is_current(entry, module, previous, by):
            return ExportReport(workload.name, engine, precision, entry.folder, True, kept, previous)
        repository.mkdir(parents=True, exist_ok=True)
        _sweep(repository)
        with tempfile.TemporaryDirectory(prefix=f"{DRAFT}{os.getpid()}-", dir=repository) as temporary:
            draft = Entry(Path(temporary), workload.name, engine, precision)
            manifest = _write(draft, entry, module, workload, rendered, by)
            if kept:
                shutil.copy2(entry.config, draft.config)
            with interrupts.finishing():
                _swap_in(draft, entry)
    except OSError as error:
        raise ArtifactError(
            f"{entry.folder} cannot be written: {error}", fix=f"make room in, or check the permissions of, {repository}"
        ) from error
    return ExportReport(workload.name, engine, precision, entry.folder, False, kept, manifest)


def _write(
    draft: Entry, entry: Entry, module: Exporter, workload: Workload, rendered: str, by: Mapping[str, Any]
) -> dict[str, Any]:
    started = time.perf_counter()
    draft.version.mkdir(parents=True)
    artifact = draft.version / module.ARTIFACT
    job = Job(
        workload=workload,
        precision=draft.precision,
        path=artifact,
        source=lambda: _source(workload, entry.repository),
        known=_known(workload, entry.repository),
    )
    with whole_recurrences():
        written = module.write(job)
    agreement = workload.agreement.at(draft.precision)
    found = parity.measure(module.load(artifact, workload), job.golden, workload, agreement)
    draft.config.write_text(rendered)
    draft.write_golden(job.golden)
    manifest = {
        "workload": workload.name,
        "engine": draft.engine,
        "precision": draft.precision,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "parameters": workload.parameters,
        "artifact": module.ARTIFACT,
        "artifact_sha256": digest(draft.version),
        "config_sha256": hashlib.sha256(rendered.encode()).hexdigest(),
        **by,
        "format": written,
        "agreement": asdict(agreement),
        "parity": {
            f"batch_{size}": {name: asdict(each) for name, each in outputs.items()} for size, outputs in found.items()
        },
        "seconds": round(time.perf_counter() - started, 3),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    draft.manifest.write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest


def _source(workload: Workload, repository: Path) -> tuple[Path, Golden]:
    """Export ONNX where it is not current, and return it with its golden samples."""
    export(workload, SOURCE, repository)
    interrupts.check()
    entry = Entry(repository, workload.name, SOURCE)
    golden = entry.read_golden()
    if golden is None:
        raise AssertionError(f"{entry.golden} has just been written")
    return entry.version / exporter(SOURCE).ARTIFACT, golden


def _known(workload: Workload, repository: Path) -> Golden | None:
    """Take the golden samples of a current ONNX entry: eager PyTorch would answer them once more."""
    entry, module = Entry(repository, workload.name, SOURCE), exporter(SOURCE)
    previous = _read_previous(entry)
    current = previous and _is_current(entry, module, previous, made_by(workload, module))
    return entry.read_golden() if current else None


def _read_previous(entry: Entry) -> dict[str, Any] | None:
    """Read the manifest that is there; a damaged one is as good as none."""
    try:
        return entry.read_manifest()
    except ArtifactError:
        return None


def _is_edited(entry: Entry, previous: Mapping[str, Any] | None, rendered: str) -> bool:
    """Tell whether the config.pbtxt that is there is neither the one written last time nor the one to be written."""
    if not entry.config.exists():
        return False
    generated = {hashlib.sha256(rendered.encode()).hexdigest(), (previous or {}).get("config_sha256")}
    return digest(entry.config) not in generated


def _is_current(entry: Entry, module: Exporter, previous: Mapping[str, Any], by: Mapping[str, Any]) -> bool:
    artifact = entry.version / module.ARTIFACT
    try:
        whole = entry.config.exists() and artifact.exists() and entry.read_golden() is not None
    except ArtifactError:
        return False
    same = all(previous.get(key) == value for key, value in by.items())
    return whole and same and previous.get("artifact_sha256") == digest(entry.version)


def _sweep(repository: Path) -> None:
    """Remove what exports that were killed have left."""
    for draft in repository.glob(f"{DRAFT}*"):
        owner = draft.name.removeprefix(DRAFT).partition("-")[0]
        if not (owner.isdecimal() and psutil.pid_exists(int(owner))):
            shutil.rmtree(draft, ignore_errors=True)


def _swap_in(draft: Entry, entry: Entry) -> None:
    """Put the draft in the entry's place; files that are not servemark's (labels, warm-up data) move along."""
    replaced = draft.repository / "replaced"
    if not entry.folder.exists():
        draft.folder.rename(entry.folder)
        return
    entry.folder.rename(replaced)
    try:
        draft.folder.rename(entry.folder)
    except OSError:
        replaced.rename(entry.folder)
        raise
    for item in replaced.iterdir():
        if not (entry.folder / item.name).exists():
            item.rename(entry.folder / item.name)
