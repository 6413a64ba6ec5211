"""Baselines: results that are kept under a name, for later ones to be compared with."""

import re
import shutil
from pathlib import Path

from servemark.compare.saved.saved_runs import read_side
from servemark.errors import OptionError, ResultError
from servemark.paths import BASELINES, shown

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def save(name: str, result: Path, *, replace: bool) -> Path:
    """Copy a result, a comparison or a folder of repeats, and return the copy. Raises OptionError, ResultError."""
    if not _NAME.fullmatch(name):
        raise OptionError(f"{name!r} cannot be a baseline's name", fix="letters, digits, '.', '-' and '_'")
    read_side(str(result))
    kept = BASELINES / name
    if kept.exists() and not replace:
        raise OptionError(f"there is a baseline {name} already, {shown(kept)}", fix="--force replaces it")
    part = BASELINES / f".{name}.part"
    try:
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree((result if result.is_dir() else result.parent).resolve(), part)
        shutil.rmtree(kept, ignore_errors=True)
        part.rename(kept)
    except OSError as error:
        raise ResultError(f"{kept} cannot be written: {error.strerror or error}", fix="make room there") from error
    return kept


def saved(name: str) -> Path:
    """Find a baseline. Raises OptionError."""
    if name not in names():
        known = f", only {', '.join(names())}" if names() else ""
        raise OptionError(f"there is no baseline {name}{known}", fix=f"servemark baseline {name} RESULT keeps one")
    return BASELINES / name


def names() -> list[str]:
    """The names of the baselines there are."""
    return sorted(path.name for path in BASELINES.glob("*") if _NAME.fullmatch(path.name))
