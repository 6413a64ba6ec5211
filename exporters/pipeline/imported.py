"""The user's own file as an artifact: placed as it is, with the golden samples of its import."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from servemark.errors import ArtifactError
from servemark.repository.entry import digest
from servemark.workload.spec import Source

AGAIN = "`servemark import PATH --force` imports it again"
WEIGHTS = "weights_{}.bin"
"""Pattern for the names that an import gives the files of an ONNX file's weights."""
_NAMES = re.compile(
    r"model\.onnx|model\.pt2|weights_\d+\.bin|model\.savedmodel/(saved_model\.pb|variables/variables\.[\w.-]+)"
)
"""All that an import writes. Anything else beside a model may be a library, which Triton would load."""


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
        if path.is_symlink() or (not path.is_dir() and not _NAMES.fullmatch(name)):
            raise ArtifactError(f"{kept} holds {name!r}, which no import writes there", fix=AGAIN)
    # No hard links: the onnx package refuses external data that has two names.
    shutil.copytree(kept, version, copy_function=shutil.copyfile, dirs_exist_ok=True)
    return {"imported": source.kind}
