"""An entry of somebody's Triton repository: the model file in it, and what its config.pbtxt adds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporters.importing.model_file import unusable
from servemark import files
from servemark.errors import ArtifactError
from servemark.repository.model_config import parse, served_versions, version_folders

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
    """Find the model of the version that Triton chooses; None if the folder is not an entry. Raises ArtifactError."""
    if not (folder / CONFIG).is_file():
        return None
    try:
        config = parse(files.text(folder / CONFIG, files.TEXT_BYTES))
    except (ArtifactError, OSError, files.NotTextError) as error:
        words = error.what if isinstance(error, ArtifactError) else f"the {CONFIG} is not a text"
        raise unusable(folder, words, fix="correct it, or name the model file itself") from error
    served = served_versions(folder, config)
    if not served:
        others = ", ".join(path.name for path in version_folders(folder))
        words = (
            f"its version_policy serves none of its versions {others}" if others else "it has no folder of a version"
        )
        raise unusable(folder, words, fix="name the model file itself")
    names = [name for name in (config.default_model_filename, *FILES) if name]
    found = next((served[0] / name for name in names if (served[0] / name).exists()), None)
    if found is not None and not found.resolve().is_relative_to(folder.resolve()):
        words = f"default_model_filename {config.default_model_filename!r} lies outside the entry"
        raise unusable(folder, words, fix="copy the model into the entry, or name the model file itself")
    if found is None or found.suffix == ".py":
        kind = config.backend or config.platform or "unknown"
        raise unusable(folder, f"its backend is {kind}, and {served[0]} has none of {', '.join(FILES)}", fix=SERVE)
    if found.suffix == ".onnx" and found.is_dir():  # with external data beside it
        found = found / found.name
    shapes = {each.name: _of_the_model(each) for each in config.input}
    whole = {name: shape for name, shape in shapes.items() if shape is not None and all(size > 0 for size in shape)}
    return TritonEntry(found, whole, config.max_batch_size)


def _of_the_model(tensor: Any) -> tuple[int, ...] | None:
    """Return the sizes that the model itself has, which differ from a client's by `reshape`; None if none are given."""
    if tensor.HasField("reshape"):
        return tuple(tensor.reshape.shape)
    return tuple(tensor.dims) or None
