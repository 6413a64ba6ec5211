"""MovieLens-20M: 20,000,263 ratings of 26,744 films by 138,493 users.

Harper & Konstan 2015, "The MovieLens Datasets: History and Context" (ACM TiiS). The official `ratings.csv` has a header
and one rating a line: userId, movieId, rating, timestamp. Users and films are numbered in the order in which the file
names them first, as MLPerf Training v0.5 numbers them.
"""

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.datasets import CATALOGUE, COPY, Origin
from servemark.errors import InputDataError, reason

KEY, FILE = "ml-20m", "ratings.csv"
ORIGIN = Origin(
    "grouplens.org/datasets/movielens/20m", 199, "research, not commercial", size_from=CATALOGUE, terms_from=COPY
)
USERS, ITEMS = 138_493, 26_744
HEADER = "userId,movieId,rating,timestamp"
FIX = f"unpack GroupLens' official ml-20m.zip, so that DATA_ROOT/{KEY}/{FILE} is there"


def histories(folder: Path) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yield each user with the films they rated, in order of time and within the same second of the file.

    Raises InputDataError with file and line.
    """
    path = folder / FILE
    users, films, timestamps = _columns(path).T
    user, film = _numbered(users), _numbered(films)
    if user.max() >= USERS or film.max() >= ITEMS:
        raise InputDataError(
            f"{path} has {user.max() + 1:,} users and {film.max() + 1:,} films, the official {USERS:,} and {ITEMS:,}",
            fix=FIX,
        )
    order = np.lexsort((timestamps, user))  # stable
    starts = np.flatnonzero(np.diff(user[order], prepend=-1))
    yield from enumerate(np.split(film[order], starts[1:]))


def _columns(path: Path) -> npt.NDArray[np.int64]:
    try:
        with files.opened_text(path, newline=None) as file:
            header = file.readline().strip()
            if header != HEADER:
                raise InputDataError(f"{path}:1: {header[:80]!r} is not {HEADER!r}", fix=FIX)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of an empty file, which is an error below
                # numpy's own reader: 20 million lines take it seconds
                table = np.loadtxt(file, np.int64, delimiter=",", usecols=(0, 1, 3), ndmin=2)
    except (OSError, UnicodeDecodeError, files.NotTextError) as error:
        raise InputDataError(f"{path} cannot be read: {reason(error)}", fix=FIX) from error
    except ValueError as error:
        raise InputDataError(f"{path}{_line(str(error))}: no rating: {error}", fix=FIX) from error
    if not table.size:
        raise InputDataError(f"{path} holds no ratings", fix=FIX)
    return table


def _line(message: str) -> str:
    """The line that numpy means, which counts rows from 0 where a number is wrong and from 1 where columns are."""
    found = re.search(r"at row (\d+)", message)
    if found is None:
        return ""
    return f":{int(found[1]) + (1 if 'column' in message.partition(' at row ')[0] else 2)}"


def _numbered(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number ids from 0 in the order in which they come first."""
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]
