"""Result directories: a versioned result.json written atomically, and the histograms beside it."""

import contextlib
import errno
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from servemark import files, interrupts
from servemark.errors import ResultError, parsing
from servemark.figures.registry import count_of
from servemark.paths import RESULTS
from servemark.results.kinds import KINDS, SERIES, Document, conformed
from servemark.results.schema import version_4
from servemark.results.schema.header import SCHEMA_VERSION
from servemark.results.schema.run import MachineSeries, PendingResult, Result
from servemark.stats.histogram import Histogram

RESULT_FILE = "result.json"
HISTOGRAM_FILE = "histograms.json"
SERIES_FILE = "series.json"
LATEST = "latest"
JOURNAL = "journal.jsonl"
"""The turns of a campaign."""
ORDER_FILE = "request.json"
"""The order of a run's process, until it has taken it."""
WHOLE = "name a whole result directory"
"""Fix where a part is missing or damaged."""
_NAME = re.compile(r"\d{8}-\d{6}-")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all: a temporary sibling, synced, then renamed, and the name synced as well.

    Raises ResultError.
    """
    try:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with interrupts.finishing():
            try:
                with temporary.open("wb") as file:
                    file.write(content.encode() if isinstance(content, str) else content)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(path)
                _sync_names(path.parent)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise _cannot_write(path, error) from error


def _sync_names(folder: Path) -> None:
    """Have a directory's names on the disk: after a power cut a rename is not there without it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that syncs no directories
            raise
    finally:
        os.close(descriptor)


def require_room(root: Path) -> None:
    """Raise ResultError where there is no room for a result under `root`, which may not be there yet."""
    try:
        _check_space(next(each for each in (root.absolute(), *root.absolute().parents) if each.exists()))
    except OSError as error:
        raise _cannot_write(root, error) from error


def new_directory(root: Path, name: str, *, now: datetime | None = None) -> Path:
    """Make a new directory `<time>-<name>` under `root`, before the run, so that a full disk shows early.

    A name like org/model becomes org_model: a directory for each run, and none above them.
    """
    name = name.replace("/", "_")
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%d-%H%M%S")
    try:
        root.mkdir(parents=True, exist_ok=True)
        _check_space(root)
        for attempt in range(1, 1000):
            directory = root / (f"{stamp}-{name}" if attempt == 1 else f"{stamp}-{name}-{attempt}")
            try:
                directory.mkdir()
            except FileExistsError:
                continue
            _link_latest(root)
            return directory
    except OSError as error:
        raise _cannot_write(root, error) from error
    raise ResultError(f"{root} already holds 1000 results of {stamp}-{name}", fix="give another --out")


def discard(directory: Path, *, whole: bool = False) -> None:
    """Remove a directory that has got no result: `whole` with all that is in it, else if nothing else is."""
    with contextlib.suppress(OSError):
        if whole:
            shutil.rmtree(directory)
        else:
            for name in (ORDER_FILE, JOURNAL):
                (directory / name).unlink(missing_ok=True)
            directory.rmdir()
        _link_latest(directory.parent)


def _link_latest(root: Path) -> None:
    """Make `results/latest` the newest result of the usual place; a file system without links has none."""
    if root.resolve() != RESULTS.resolve():
        return
    newest = _newest(root)
    temporary = root / f".{LATEST}.{os.getpid()}"
    with contextlib.suppress(OSError):
        try:
            if newest is None:
                (root / LATEST).unlink()
            else:
                temporary.symlink_to(newest)
                temporary.replace(root / LATEST)
        finally:
            temporary.unlink(missing_ok=True)


def _newest(root: Path) -> str | None:
    return max((path.name for path in root.iterdir() if _NAME.match(path.name)), default=None)


def write(directory: Path, result: Mapping[str, object], histograms: Mapping[str, str] | None = None) -> Path:
    """Write a result, and its histograms first, so that a result.json never refers to missing ones."""
    if histograms:
        write_atomically(directory / HISTOGRAM_FILE, json.dumps(histograms, indent=2) + "\n")
    path = directory / RESULT_FILE
    write_atomically(path, to_json(result))
    return path


def write_series(directory: Path, document: MachineSeries) -> None:
    """Write what was read of the machines during a run. Raises ResultError."""
    write_atomically(directory / SERIES_FILE, json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n")


def read_run(path: Path) -> Result:
    """Read the result of a load run that has measured something. Raises ResultError."""
    result = read_begun(path)
    if result["verdict"] is None:
        raise ResultError(f"{path} has measured nothing yet", fix="name a run that has ended")
    return result


def read_begun(path: Path) -> Result | PendingResult:
    """Read the result of a load run, whatever it has measured so far. Raises ResultError."""
    document = read(path)
    if document.get("verdict") is None:
        return typed(document, path, PendingResult)
    return typed(document, path, Result)


def read_as(path: Path, kind: type[Document]) -> Document:
    """Read a document of a type from its directory or file. Raises ResultError."""
    return typed(read(path), path, kind)


def typed(document: Mapping[str, Any], path: Path, kind: type[Document]) -> Document:
    """Return what was read from a path as its type. Raises ResultError if it is of another kind, or damaged."""
    require_kind(document, path, kind)
    try:
        return conformed(document, kind)
    except ValueError as error:
        raise ResultError(f"{path} is damaged: {error}", fix=WHOLE) from error


def require_kind(document: Mapping[str, Any], name: object, kind: type) -> None:
    """Raise ResultError if a document is of another kind than a type's."""
    found, wanted = document.get("kind", SERIES), next(name for name, types in KINDS.items() if kind in types)
    if found != wanted:
        command = document.get("command")
        made = f"; this was made by `{shlex.join(map(str, command))}`" if isinstance(command, list) else ""
        raise ResultError(f"{name} is of the kind {found}, not {wanted}", fix=f"name a document of that kind{made}")


def read(path: Path) -> dict[str, Any]:
    """Read a document, or the result of a directory. Raises ResultError."""
    file = path
    try:
        if path.is_dir():  # OSError where the name is too long
            file = path / RESULT_FILE
        result = msgspec.json.decode(files.text(file, files.DOCUMENT_BYTES))
    except OSError as error:
        raise ResultError(f"{file} cannot be read: {error.strerror}", fix=_instead_of(file)) from error
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{file} is not a result: {error}", fix="name a result directory") from error
    if not isinstance(result, dict):
        raise ResultError(f"{file} is not a result: no JSON object", fix="name a result directory")
    version = result.get("schema_version")
    if version == version_4.VERSION:
        try:
            return version_4.converted(result)
        except (KeyError, TypeError, AttributeError) as error:
            raise ResultError(f"{file} is damaged: {error!r}", fix=WHOLE) from error
    if version != SCHEMA_VERSION:
        raise ResultError(f"{file} has schema version {version}, this is version {SCHEMA_VERSION}")
    return result


def _instead_of(file: Path) -> str:
    """Suggest a path instead of a file that cannot be read."""
    if file.name == LATEST and file.parent.is_dir() and (newest := _newest(file.parent)):
        return f"only results/ has a `{LATEST}`: name {file.parent / newest}, the newest here"
    return "name a result directory"


def read_histograms(directory: Path) -> dict[str, str]:
    """Read the histograms beside a result. Raises ResultError."""
    file = directory / HISTOGRAM_FILE
    try:
        histograms: dict[str, str] = json.loads(files.text(file, files.DOCUMENT_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise ResultError(f"{file} cannot be read: {error}", fix=WHOLE) from error
    return histograms


def read_latency(directory: Path, result: Result) -> Histogram:
    """Read the latencies beside a result, with the number of its failed requests. Raises ResultError."""
    with parsing(directory / HISTOGRAM_FILE, ResultError, fix=WHOLE):
        latency = Histogram.decode(read_histograms(directory)["latency_us"])
        latency.failed = count_of(result, "errors.count")
        return latency


def to_json(document: object) -> str:
    """Write strict JSON: NaN and infinity are errors here, because other readers would reject them."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def print_json(document: object) -> None:
    """Write one JSON document to stdout, for --json."""
    sys.stdout.write(to_json(document))
    sys.stdout.flush()


def _check_space(directory: Path) -> None:
    """Raise OSError where the file system has no room for a result (1 MiB is plenty)."""
    if os.statvfs(directory).f_bavail * os.statvfs(directory).f_frsize < 1 << 20:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _cannot_write(path: Path, error: OSError) -> ResultError:
    return ResultError(
        f"results cannot be written to {path}: {error.strerror}", fix="give another directory: --out DIR"
    )
