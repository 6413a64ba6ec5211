"""Gowalla check-ins as Ranking Distillation's public code splits them.

Tang & Wang 2018, "Ranking Distillation" (KDD), section 5.1; raw data: Cho, Myers & Leskovec 2011, "Friendship and
Mobility". `gowalla/test/train.txt` holds one check-in a line, `user item rating` separated by spaces, those of a user
in order of time; `gowalla/test/test.txt` holds what is to be predicted.
"""

from collections.abc import Iterator
from pathlib import Path

from servemark.datasets import MAKER, Origin, _text
from servemark.errors import InputDataError

KEY = "gowalla"
ORIGIN = Origin("github.com/graytowne/rank_distill", None, "cite the paper", terms_from=MAKER)
FILE, LATER = Path("test", "train.txt"), Path("test", "test.txt")
_FIX = f"lay out Ranking Distillation's split as {KEY}/{FILE}: lines of `user item rating`, in order of time"


def is_here(folder: Path) -> bool:
    """Return True if a folder holds this data set."""
    return (folder / FILE).exists()


def histories(folder: Path) -> Iterator[tuple[int, list[int]]]:
    """Yield each user with their check-ins, oldest first; users count from 0, items from 1, as they first appear.

    Raises InputDataError with file and line.
    """
    users, _ = _numbered(folder)
    yield from enumerate(users.values())


def chosen_later(folder: Path) -> dict[int, list[int]]:
    """The items of each user's check-ins in the test split, by the same numbers; those never seen before are left out.

    Raises InputDataError with file and line.
    """
    users, items = _numbered(folder)
    numbers = {user: number for number, user in enumerate(users)}
    found: dict[int, list[int]] = {}
    for user, item in _check_ins(folder / LATER):
        if user in users and item in items:
            found.setdefault(numbers[user], []).append(items[item])
    return found


def _numbered(folder: Path) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Return each user's items by number, and the number of each item, both as they first appear."""
    users: dict[str, list[int]] = {}
    items: dict[str, int] = {}
    for user, item in _check_ins(folder / FILE):
        users.setdefault(user, []).append(items.setdefault(item, len(items) + 1))
    return users, items


def _check_ins(path: Path) -> Iterator[tuple[str, str]]:
    for place, line in _text.lines(path, _FIX):
        fields = line.split()
        if len(fields) != 3:
            raise InputDataError(f"{place}: {len(fields)} fields in {line.strip()[:80]!r}", fix=_FIX)
        yield fields[0], fields[1]
