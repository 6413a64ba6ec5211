"""Description of a library's model: all that a workload needs, as it is kept in the folder of imported models."""

import functools
import hashlib
import importlib.util
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from servemark import files
from servemark.errors import ArtifactError, OptionError, parsing
from servemark.hub.blocks.ports import Port, Shapes
from servemark.output import note
from servemark.plugins import module_of, names_in
from servemark.results.directory import write_atomically
from servemark.workload import Tensor, Workload
from servemark.workload.imported import models_folder
from servemark.workload.registry import own
from servemark.workload.spec import OWN, SEPARATOR
from servemark.workload.suites import labels_of

LIBRARIES = "servemark.hub"
KEPT = "hub.json"
CONFIGURATION, MODULES = "config.json", "modules.json"
MARKS = {"model_type": "transformers", "architecture": "timm"}
"""Keys of a configuration by which its library is known."""
SAVED = "a library's `save_pretrained`"
INSTALL = "pip install 'servemark[hub]'"


class Description(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model of a library."""

    name: str
    """The workload's."""
    library: str
    version: str
    model: str
    """Its name in the library, or the path of a folder."""
    task: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    parameters: int
    flops: int | None
    """For one sample: products and convolutions, a multiply-add as 2."""
    max_batch: int
    random: str | None
    """Reason why the weights are random; None where they are the trained ones."""
    sha256: str = ""
    """Digest of a folder's configuration and weights."""
    facts: dict[str, Any] = {}
    """Facts that the library's module keeps for `build`."""

    @property
    def made_of(self) -> str:
        """Say what, beside the code, decides the network and its weights."""
        weights = f"random weights, because {self.random}" if self.random else "trained weights"
        digest = f", sha256 {self.sha256[:12]}" if self.sha256 else ""
        return f"{self.model} of {self.library} {self.version}, {weights}{digest}"


def libraries() -> list[str]:
    """List the libraries whose models can be named."""
    return names_in(LIBRARIES)


def named(text: str) -> tuple[str, str] | None:
    """Split `library/model`, or a workload's name of that kind; None for any other name."""
    library, _, model = text.replace(SEPARATOR, "/").partition("/")
    return (library, model) if model and library in libraries() else None


def described(text: str) -> Workload | None:
    """Describe a library's model that is named for the first time; None for a name that is not `library/model`.

    Raises OptionError where the library has no such model, or is not installed.
    """
    parts = named(text)
    if parts is None:
        return None
    library, model = parts
    folder = _folder(text.replace("/", SEPARATOR))
    if (folder / KEPT).is_file() and (kept := _read(folder / KEPT)).version == _version(kept.library, kept.version):
        return workload(kept)
    # A suite names many, and each may take seconds.
    note(f"{library}/{model}: described, and its trained weights looked for, because it is named for the first time")
    return workload(keep(_library(library).describe(model, folder.name, {}), folder))


def _folder(name: str) -> Path:
    """Return the folder of a model's description. Raises OptionError for the name of a workload that is none."""
    folder = models_folder() / name
    if not (folder / KEPT).is_file() and name in own():
        raise OptionError(
            f"{name!r} is a workload already", fix="rename that one; `servemark import` takes another --name"
        )
    return folder


def _version(library: str, otherwise: str) -> str:
    """Return the version of a library that is installed, and another where none is."""
    try:
        return version(library)
    except PackageNotFoundError:
        return otherwise


def is_importable(path: Path) -> bool:
    """Tell whether a path is a library's folder of a model, or stands for the name of one."""
    held = any((path / name).is_file() for name in (CONFIGURATION, MODULES))
    return held or (not path.exists() and named(str(path)) is not None)


def encoder_of(path: Path) -> Path:
    """Return the folder of a model's network: older versions of sentence-transformers have one below the model's own.

    Raises OptionError.
    """
    if not (path / MODULES).is_file():
        return path
    with parsing(path / MODULES, OptionError, fix=f"a folder as {SAVED} writes it"):
        modules = msgspec.json.decode(files.content(path / MODULES, files.DOCUMENT_BYTES), type=list[dict[str, Any]])
    names = {each.get("path") for each in modules if str(each.get("type")).endswith(".Transformer")}
    return next((each.parent for each in path.glob(f"*/{CONFIGURATION}") if each.parent.name in names), path)


def imported(path: Path, name: str, shapes: Shapes, *, force: bool) -> Description:
    """Describe a model of a folder or `library/model`, with sizes of one's own, and keep it. Raises OptionError."""
    folder = _folder(name)
    if folder.exists() and not force:
        raise OptionError(f"{folder} is there already", fix="--force imports it again, --name gives it another name")
    parts = None if path.exists() else named(str(path))
    if parts is None:
        return keep(_of_folder(path, name, shapes), folder)
    library, model = parts
    found: Description = _library(library).describe(model, name, shapes)
    return keep(found, folder)


def _of_folder(path: Path, name: str, shapes: Shapes) -> Description:
    file = encoder_of(path) / CONFIGURATION
    with parsing(file, OptionError, fix=f"a folder as {SAVED} writes it"):
        document = msgspec.json.decode(files.content(file, files.DOCUMENT_BYTES), type=dict[str, Any])
    library = next((each for key, each in MARKS.items() if key in document), "")
    if not library:
        raise OptionError(
            f"{file} has neither of {', '.join(MARKS)}, so that it is not known whose it is",
            fix="a folder of Transformers or timm as `save_pretrained` writes it; or import an ONNX file",
        )
    found: Description = _library(library).describe(str(path.resolve()), name, shapes)
    return msgspec.structs.replace(found, sha256=_digest(file.parent))


def _digest(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted([folder / CONFIGURATION, *folder.glob("*.safetensors")]):
        files.require_regular(path)
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def keep(description: Description, folder: Path) -> Description:
    """Keep a description for the commands to come."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / KEPT, msgspec.json.format(msgspec.json.encode(description)))
    return description


def kept_models() -> dict[str, Workload]:
    """The described models by name. Raises ArtifactError on a damaged description."""
    return {path.parent.name: workload(_read(path)) for path in sorted(models_folder().glob(f"*/{KEPT}"))}


def search(library: str, text: str) -> list[str]:
    """List a library's names that contain a text. Raises OptionError."""
    if library not in libraries():
        raise OptionError(f"--library {library}: servemark does not know it", fix=f"one of {', '.join(libraries())}")
    found: list[str] = _library(library).search(text)
    return found


def workload(description: Description) -> Workload:
    """Make the workload; nothing of the library is imported before its network is built."""
    # What draws requests imports SciPy, for which a command without such a model does not wait.
    from servemark.hub.blocks.requests import reader, requests

    return Workload(
        name=description.name,
        title=f"{description.model} ({description.library})",
        task=description.task or OWN,
        suites=(description.library, *labels_of(description.name)),
        inputs=tuple(Tensor(port.name, port.datatype, port.shape) for port in description.inputs),
        outputs=tuple(Tensor(port.name, port.datatype, port.shape) for port in description.outputs),
        parameters=description.parameters,
        flops=description.flops,
        max_batch=description.max_batch,
        build=lambda: _library(description.library).build(description),
        samples=functools.partial(requests, description.inputs),
        read=reader(description.inputs, functools.partial(_preparation, description)),
        trained=description.random is None,
        module=f"{LIBRARIES}.{description.library}",
        made_of=description.made_of,
    )


def _preparation(description: Description, kind: str) -> Any:
    """Return how the library prepares `pictures`, `texts` or `sounds`.

    Raises OptionError for a description that does not say yet how pictures are.
    """
    try:
        return getattr(_library(description.library), kind)(description)
    except KeyError as error:
        if kind != "pictures":
            raise
        raise OptionError(
            f"the description of {description.name} was made before servemark kept how its pictures are prepared",
            fix=f"delete {models_folder() / description.name / KEPT}, and import a folder again: it is made anew",
        ) from error


def _library(name: str) -> Any:
    """Import a library's module. Raises OptionError where the library is not installed."""
    if importlib.util.find_spec(name) is None:
        raise OptionError(f"{name} is not installed, and {name}/MODEL names a model of it", fix=INSTALL)
    # A progress bar or a warning of a library has no place between a command's lines.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    return module_of(LIBRARIES, name)


def _read(path: Path) -> Description:
    with parsing(path, ArtifactError, fix=f"delete {path}: it is written anew"):
        return msgspec.json.decode(files.content(path, files.DOCUMENT_BYTES), type=Description)
