"""Gowalla check-ins as Ranking Distillation's public code splits them.

Tang & Wang 2018, "Ranking Distillation" (KDD), section 5.1; raw data: Cho, Myers & Leskovec 2011, "Friendship and
Mobility". `gowalla/test/train.txt` holds one check-in a line, `user item rating` separated by spaces, those of a user
in order of time; `gowalla/test/test.txt` holds what is to be predicted, which a load test does not read.
"""

from collections.abc import Iterator
from pathlib import Path

from servemark.datasets import _text
from servemark.errors import InputDataError

KEY = "gowalla"
FILE = Path("test", "train.txt")
_FIX = f"lay out Ranking Distillation's split as {KEY}/{FILE}: lines of `user item rating`, in order of time"


def is_here(folder: Path) -> bool:
    """Whether a folder holds this data set."""
    return (folder / FILE).exists()


def histories(folder: Path) -> Iterator[tuple[int, list[int]]]:
    """Yield each user with their check-ins, oldest first; users count from 0, items from 1, as they first appear.

    Raises InputDataError with file and line.
    """
    users: dict[str, list[int]] = {}
    items: dict[str, int] = {}
    for place, line in _text.lines(folder / FILE, _FIX):
        fields = line.split()
        if len(fields) != 3:
            raise InputDataError(f"{place}: {len(fields)} fields in {line.strip()[:80]!r}", fix=_FIX)
        user, item, _ = fields
        users.setdefault(user, []).append(items.setdefault(item, len(items) + 1))
    yield from enumerate(users.values())
