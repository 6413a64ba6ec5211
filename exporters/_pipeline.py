"""What every export does around the engine's own step: build, check, compare, describe, swap in."""

import hashlib
import json
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from exporters import config, parity
from exporters._recurrence import whole_recurrences
from exporters._registry import Exporter, exporter
from servemark import __version__
from servemark.artifacts import Arrays, Entry
from servemark.errors import ArtifactError
from servemark.models import Workload, stack

GOLDEN_ROWS = 16
HEAVY_GOLDEN_ROWS = 4
HEAVY_FLOPS = 100e9
"""A sample above this takes eager PyTorch seconds on a few cores, so that 16 of them would take minutes."""
EXAMPLE_ROWS = 2  # PyTorch bakes a batch of 1 into the program


@dataclass(frozen=True)
class ExportReport:
    """What an export did: `config_kept` says that a config.pbtxt edited by hand was left as it is."""

    workload: str
    engine: str
    folder: Path
    up_to_date: bool
    config_kept: bool
    manifest: Mapping[str, Any]


def export(workload: Workload, engine: str, repository: Path, *, force: bool = False) -> ExportReport:
    """Export a workload for an engine into the repository, unless an up-to-date artifact is there.

    The entry is made in a temporary folder beside its place and renamed, so it is there whole or not at all. Raises
    OptionError on an unknown engine; ArtifactError when packages are missing, the model is not what its workload says,
    the artifact lies outside the workload's agreement with eager PyTorch, or the repository cannot be written.
    """
    module = exporter(engine)
    entry = Entry(repository, workload.name, engine)
    made_by = _made_by(workload, engine, module)
    rendered = config.render(workload, model=entry.model, engine=engine, artifact=module.ARTIFACT)
    previous = _read_previous(entry)
    try:
        kept = not force and _is_edited(entry, previous, rendered)
        configured = kept or (entry.config.exists() and entry.config.read_text() == rendered)
        if not force and configured and previous and _is_current(entry, module, previous, made_by):
            return ExportReport(workload.name, engine, entry.folder, True, kept, previous)
        repository.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".export-", dir=repository) as temporary:
            draft = Entry(Path(temporary), workload.name, engine)
            manifest = _write(draft, module, workload, rendered, made_by)
            if kept:
                shutil.copy2(entry.config, draft.config)
            _swap_in(draft, entry)
    except OSError as error:
        raise ArtifactError(
            f"{entry.folder} cannot be written: {error}", fix=f"make room in, or check the permissions of, {repository}"
        ) from error
    return ExportReport(workload.name, engine, entry.folder, False, kept, manifest)


def _write(
    draft: Entry, module: Exporter, workload: Workload, rendered: str, made_by: Mapping[str, Any]
) -> dict[str, Any]:
    started = time.perf_counter()
    model = workload.build()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if parameters != workload.parameters:
        raise ArtifactError(
            f"{workload.name} has {parameters:,} parameters, its workload says {workload.parameters:,}",
            fix=f"mend the workload {workload.name} in servemark/models",
        )
    golden = parity.eager(model, workload, _golden_inputs(workload))
    draft.version.mkdir(parents=True)
    artifact = draft.version / module.ARTIFACT
    with whole_recurrences():
        written = module.write(model, workload, _example(workload, golden.inputs), artifact)
    found = parity.measure(module.load(artifact, workload), golden, workload)
    draft.config.write_text(rendered)
    draft.write_golden(golden)
    manifest = {
        "workload": workload.name,
        "engine": draft.engine,
        "precision": "fp32",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "parameters": parameters,
        "artifact": module.ARTIFACT,
        "artifact_sha256": _digest(artifact),
        "config_sha256": hashlib.sha256(rendered.encode()).hexdigest(),
        **made_by,
        "format": written,
        "agreement": asdict(workload.agreement),
        "parity": {
            f"batch_{size}": {name: asdict(each) for name, each in outputs.items()} for size, outputs in found.items()
        },
        "seconds": round(time.perf_counter() - started, 3),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    draft.manifest.write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest


def _golden_inputs(workload: Workload) -> Arrays:
    """Draw samples that share one shape, the first that comes so often where shapes vary."""
    alike = defaultdict(list)
    for sample in workload.samples(np.random.default_rng(crc32(f"golden {workload.name}".encode()))):
        shape = tuple(sample[tensor.name].shape for tensor in workload.inputs)
        alike[shape].append(sample)
        if len(alike[shape]) == (HEAVY_GOLDEN_ROWS if workload.flops > HEAVY_FLOPS else GOLDEN_ROWS):
            return stack(alike[shape], workload.inputs)
    raise AssertionError(f"the samples of {workload.name} end")


def _example(workload: Workload, inputs: Arrays) -> Arrays:
    """Take rows to trace with; sizes that vary are one larger than in `inputs`, so a baked-in one shows in parity."""
    return {
        tensor.name: np.pad(
            inputs[tensor.name][:EXAMPLE_ROWS],
            [(0, int(axis in tensor.variable_axes)) for axis in range(len(tensor.shape) + 1)],
        )
        for tensor in workload.inputs
    }


def _made_by(workload: Workload, engine: str, module: Exporter) -> dict[str, Any]:
    """Say what decides the artifact: versions, and the workload's own file for those who edit it.

    Raises ArtifactError where a package is missing.
    """
    try:
        packages = {name: version(name) for name in ("torch", "numpy", *module.PACKAGES)}
    except PackageNotFoundError as error:
        raise ArtifactError(f"exporting for {engine} needs {error.name}", fix="pip install -e '.[export]'") from error
    source = sys.modules[workload.build.__module__].__file__
    return {
        "versions": {"servemark": __version__, "python": platform.python_version(), **packages},
        "source_sha256": _digest(Path(source)) if source else None,
    }


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
    return _digest(entry.config) not in generated


def _is_current(entry: Entry, module: Exporter, previous: Mapping[str, Any], made_by: Mapping[str, Any]) -> bool:
    artifact = entry.version / module.ARTIFACT
    try:
        whole = entry.config.exists() and artifact.is_file() and entry.read_golden() is not None
    except ArtifactError:
        return False
    same = all(previous.get(key) == value for key, value in made_by.items())
    return whole and same and previous.get("artifact_sha256") == _digest(artifact)


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


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
