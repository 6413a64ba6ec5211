"""An entry of somebody's Triton repository: the model file in it, and what its config.pbtxt adds."""

from dataclasses import dataclass
from pathlib import Path

from exporters.importing.model_file import unusable
from servemark.errors import ArtifactError
from servemark.repository.model_config import parse

CONFIG = "config.pbtxt"
FILES = ("model.onnx", "model.savedmodel", "model.pt2")
SERVE = "serve it yourself: `servemark run NAME --url URL`"


@dataclass(frozen=True)
class TritonEntry:
    """Imported facts of an entry."""

    file: Path
    shapes: dict[str, tuple[int, ...]]
    """Inputs whose sizes the configuration gives whole."""
    max_batch: int
    """0: the entry has no batches."""


def read(folder: Path) -> TritonEntry | None:
    """Find the newest version's model; None if the folder is not an entry. Raises ArtifactError."""
    if not (folder / CONFIG).is_file():
        return None
    try:
        config = parse((folder / CONFIG).read_text())
    except (ArtifactError, UnicodeDecodeError) as error:
        words = error.what if isinstance(error, ArtifactError) else f"the {CONFIG} is not a text"
        raise unusable(folder, words, fix="correct it, or name the model file itself") from error
    versions = sorted((path for path in folder.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
    if not versions:
        raise unusable(folder, "it has no folder of a version", fix="name the model file itself")
    names = [name for name in (config.default_model_filename, *FILES) if name]
    found = next((versions[-1] / name for name in names if (versions[-1] / name).exists()), None)
    if found is not None and not found.resolve().is_relative_to(folder.resolve()):
        words = f"default_model_filename {config.default_model_filename!r} lies outside the entry"
        raise unusable(folder, words, fix="copy the model into the entry, or name the model file itself")
    if found is None or found.suffix == ".py":
        kind = config.backend or config.platform or "unknown"
        raise unusable(folder, f"its backend is {kind}, and {versions[-1]} has none of {', '.join(FILES)}", fix=SERVE)
    if found.suffix == ".onnx" and found.is_dir():  # with external data beside it
        found = found / found.name
    shapes = {each.name: tuple(each.dims) for each in config.input if each.dims and min(each.dims) > 0}
    return TritonEntry(found, shapes, config.max_batch_size)
