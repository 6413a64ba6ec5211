"""The contract between the stages: what one entry of the model repository holds, and where.

    model_repo/<workload>_<engine>[_<precision>]/      no precision: fp32
        config.pbtxt           Triton's model configuration
        1/<artifact>           the model (model.onnx, model.pt2, ...)
        golden.npz             sampled inputs and what eager PyTorch answers: "input:<name>", "output:<name>", N rows;
                               "moves:<name>" where an import found that roundings move answers far
        export.json            how it was made: versions, parity errors, tolerances, digests

Triton reads the first two and ignores the rest.
"""

import hashlib
import json
import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from servemark import files
from servemark.documents.request import PRECISIONS
from servemark.errors import ArtifactError, parsing
from servemark.paths import MODEL_REPOSITORY
from servemark.workload import Arrays, elements, read_npz, write_npz
from servemark.workload.agreement import REDUCED

FULL = PRECISIONS[0]
CONFIG = "config.pbtxt"
_ENGINE = re.compile(r"[\w.-]*")


@dataclass(frozen=True)
class Golden:
    """Inputs and reference outputs, each array with one row per sample."""

    inputs: Arrays
    outputs: Arrays
    origin: str = ""
    """Whose the outputs are, where they are not an export's."""
    moves: Arrays = field(default_factory=dict)
    """Output -> how far roundings of the inputs move each element, where that is more than others have to agree."""

    @property
    def rows(self) -> int:
        """Number of samples."""
        return len(next(iter(self.inputs.values())))

    @property
    def digests(self) -> list[tuple[str, str]]:
        """Each array by its name, and a digest of its values."""
        arrays = [*self.inputs.items(), *self.outputs.items()]
        values = ((name, repr(array.tolist()) if array.dtype == object else array.tobytes()) for name, array in arrays)
        return [(n, hashlib.sha256(v.encode() if isinstance(v, str) else v).hexdigest()) for n, v in values]


@dataclass(frozen=True)
class Entry:
    """One model directory of a repository."""

    repository: Path
    workload: str
    engine: str
    precision: str = FULL

    def __post_init__(self) -> None:
        """Check the engine, which is part of a folder's name. Raises ArtifactError."""
        if not _ENGINE.fullmatch(self.engine):
            raise ArtifactError(
                f"{self.engine!r} is not a name for an engine", fix="servemark doctor lists the engines"
            )

    @classmethod
    def of_folder(cls, folder: Path) -> Self | None:
        """Read an entry off its folder's name; None if servemark gives no such name.

        Workloads have underscores in their names, engines have none. An entry that is written by hand may be named so
        too: what servemark has exported has a manifest.
        """
        rest, _, last = folder.name.rpartition("_")
        workload, _, engine = rest.rpartition("_") if last in REDUCED else (rest, "_", last)
        if not workload or not engine or not _ENGINE.fullmatch(engine):
            return None
        return cls(folder.parent, workload, engine, last if last in REDUCED else FULL)

    @property
    def model(self) -> str:
        """The model's name in Triton."""
        return f"{self.workload}_{self.engine}" + ("" if self.precision == FULL else f"_{self.precision}")

    @property
    def folder(self) -> Path:
        return self.repository / self.model

    @property
    def config(self) -> Path:
        return self.folder / CONFIG

    @property
    def version(self) -> Path:
        """The directory of the one version that servemark writes."""
        return self.folder / "1"

    @property
    def golden(self) -> Path:
        """Reference inputs and outputs."""
        return self.folder / "golden.npz"

    @property
    def manifest(self) -> Path:
        """File that describes the artifact's export."""
        return self.folder / "export.json"

    def read_config(self) -> str:
        """Read config.pbtxt, as `config_text`."""
        return config_text(self.folder)

    def read_golden(self) -> Golden | None:
        """Load the golden samples, None where there are none. Raises ArtifactError on a damaged file."""
        if not self.golden.exists():
            return None
        return read_golden(self.golden, fix=self.export_command(force=True))

    def write_golden(self, golden: Golden) -> None:
        write_golden(self.golden, golden)

    def read_manifest(self) -> dict[str, Any] | None:
        """Load export.json, None where there is none. Raises ArtifactError on a damaged file."""
        if not self.manifest.exists():
            return None
        with parsing(self.manifest, ArtifactError, fix=self.export_command(force=True)):
            manifest: dict[str, Any] = json.loads(files.text(self.manifest, files.DOCUMENT_BYTES))
            if not isinstance(manifest, dict):
                raise ValueError("no JSON object")
        return manifest

    def require(self) -> None:
        """Check that the entry is there. Raises ArtifactError naming the export command."""
        if not self.config.exists():
            raise ArtifactError(f"{self.model} is not in {self.repository}", fix=self.export_command())
        if not self.version.is_dir() or not any(self.version.iterdir()):
            raise ArtifactError(f"{self.folder} holds no model file", fix=self.export_command(force=True))

    def export_command(self, *, force: bool = False) -> str:
        """The command that makes this entry."""
        return f"servemark export {self._arguments}{' --force' if force else ''}{self._where}"

    def serve_command(self) -> str:
        """The command that serves this entry."""
        return f"servemark serve {self._arguments}"

    @property
    def _arguments(self) -> str:
        precision = "" if self.precision == FULL else f" --precision {self.precision}"
        return f"{self.workload} --engine {self.engine}{precision}"

    @property
    def _where(self) -> str:
        """The option that names this repository, nothing where it is the usual one."""
        usual = self.repository.absolute() == MODEL_REPOSITORY.absolute()
        return "" if usual else f" --model-repository {shlex.quote(str(self.repository))}"

    def overlay(self, config: str, repository: Path) -> "Entry":
        """Make a repository whose entry is this one with another configuration."""
        entry = replace(self, repository=repository)
        self.link(entry.folder, config)
        return entry

    def link(self, folder: Path, config: str) -> None:
        """Make a model directory like this one with another configuration; what it holds besides is linked."""
        folder.mkdir(parents=True)
        for item in self.folder.iterdir():
            if item != self.config:
                (folder / item.name).symlink_to(item.resolve())
        (folder / self.config.name).write_text(config)


def how_to_make(folder: Path, *, force: bool = False) -> str:
    """Advise how a model directory is made again: by its export, or by hand where that is how it was written."""
    entry = Entry.of_folder(folder)
    if entry is not None and (entry.manifest.exists() or not folder.exists()):
        return entry.export_command(force=force)
    return f"correct {folder / CONFIG}, or put the model that it describes beside it"


def config_text(folder: Path) -> str:
    """Read the config.pbtxt of a model directory, which a person may have written. Raises ArtifactError."""
    with parsing(folder / CONFIG, ArtifactError, fix=how_to_make(folder, force=True)):
        return files.text(folder / CONFIG, files.TEXT_BYTES)


def read_golden(path: Path, *, fix: str) -> Golden:
    """Load golden samples. Raises ArtifactError, with this fix, on a damaged file."""
    with parsing(path, ArtifactError, fix=fix):
        arrays = {name: elements(array) for name, array in read_npz(path).items()}
        kinds = {kind: _with_prefix(f"{kind}:", arrays) for kind in ("input", "output", "moves")}
        golden = Golden(kinds["input"], kinds["output"], moves=kinds["moves"])
        if not golden.inputs or len({len(array) for array in arrays.values()}) != 1:
            raise ValueError(f"its arrays are {', '.join(arrays) or 'none'}, or differ in length")
    return golden


def write_golden(path: Path, golden: Golden) -> None:
    """Write golden samples."""
    kinds = {"input": golden.inputs, "output": golden.outputs, "moves": golden.moves}
    write_npz(path, {f"{kind}:{name}": array for kind, arrays in kinds.items() for name, array in arrays.items()})


def _with_prefix(prefix: str, arrays: Arrays) -> Arrays:
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}


def digest(path: Path) -> str:
    """Digest a file, or everything in a directory with the names."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    files = sorted(file for file in path.rglob("*") if file.is_file())
    lines = (f"{digest(file)} {file.relative_to(path)}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
