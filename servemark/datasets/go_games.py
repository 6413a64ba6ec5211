"""Games of Go on 9 x 9 in SGF: those of MLPerf's reference, `9x9_pro_*.sgf`, else every `.sgf` of a folder.

MLPerf Training v0.5, reinforcement/tensorflow/minigo/benchmark_sgf: four games of professionals, which are IYHN, IYMD,
YKSH and YSIY. The format is SGF FF[4] (red-bean.com/sgf); of a game with variations the main line is read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import MAKER, Origin
from servemark.errors import InputDataError, parsing

KEY = "go_9x9"
ORIGIN = Origin("github.com/mlcommons/training, minigo", None, "Apache-2.0", terms_from=MAKER)
SIDE = 9
PASS = SIDE**2
BLACK, WHITE = 1, -1
FIX = f"put MLPerf's benchmark_sgf/9x9_pro_*.sgf, or other games on 9 x 9, into DATA_ROOT/{KEY}/"
_TOKEN = re.compile(r"(?P<name>[A-Z]+)\s*(?P<values>(?:\[(?:\\.|[^\]\\])*\]\s*)+)|(?P<end>\))", re.DOTALL)
_VALUE = re.compile(r"\[((?:\\.|[^\]\\])*)\]", re.DOTALL)
_SIDES = {"B": BLACK, "W": WHITE, "AB": BLACK, "AW": WHITE}
Board = npt.NDArray[np.int8]
"""The stones [81], row by row from the top: 1 black, -1 white."""


@dataclass(frozen=True)
class Position:
    """A player's view: the boards now and before, the newest first, their colour, and their move."""

    boards: tuple[Board, ...]
    side: int
    move: int
    """The point from 0 to 80, row by row from the top, or 81 for passing."""


def positions(folder: Path, history: int) -> list[Position]:
    """List every move of every game with `history` boards, fewer at a game's start. Raises InputDataError."""
    games = sorted(folder.rglob("9x9_pro_*.sgf")) or sorted(folder.rglob("*.sgf"))
    if not games:
        raise InputDataError(f"{folder} holds no games in SGF", fix=FIX)
    return [position for game in games for position in _played(game, history)]


def _played(path: Path, history: int) -> Iterator[Position]:
    boards: tuple[Board, ...] = (np.zeros(PASS, np.int8),)
    side_length = None
    for place, name, value in _main_line(path):
        if name == "SZ":
            side_length = value
        elif name in {"AB", "AW"}:
            boards = (_with(boards[0], _point(value, place), _SIDES[name], place),)
        elif name in {"B", "W"}:
            if side_length != str(SIDE):
                raise InputDataError(f"{place}: the board is {side_length or 19}, not {SIDE}", fix=FIX)
            move, side = _point(value, place), _SIDES[name]
            yield Position(boards, side, move)
            after = boards[0] if move == PASS else _with(boards[0], move, side, place)
            boards = (after, *boards)[:history]


def _main_line(path: Path) -> Iterator[tuple[str, str, str]]:
    """Place, property and value, up to where the first variation ends."""
    with parsing(path, InputDataError, fix=FIX):
        text = path.read_text(encoding="utf-8-sig", errors="replace")  # names of players are in any encoding
    if not text.lstrip().startswith("("):
        raise InputDataError(f"{path}:1: {text[:40]!r} is not SGF", fix=FIX)
    for token in _TOKEN.finditer(text):
        if token["end"]:
            return
        for value in _VALUE.findall(token["values"]):
            yield f"{path}:{text.count(chr(10), 0, token.start()) + 1}", token["name"], value.strip()
    raise InputDataError(f"{path} ends in the middle of a game", fix=FIX)


def _point(value: str, place: str) -> int:
    """Column and row as letters from the upper left corner; nothing, or `tt`, is passing."""
    if value in {"", "tt"}:
        return PASS
    column, row = (ord(letter) - ord("a") for letter in value) if len(value) == 2 else (-1, -1)
    if not (0 <= column < SIDE and 0 <= row < SIDE):
        raise InputDataError(f"{place}: {value[:20]!r} is not a point of the board", fix=FIX)
    return row * SIDE + column


def _with(board: Board, point: int, side: int, place: str) -> Board:
    """The board after a stone, without what it captures."""
    if board[point]:
        raise InputDataError(f"{place}: there is a stone already", fix=FIX)
    after = board.copy()
    after[point] = side
    for neighbour in _neighbours(point):
        if after[neighbour] == -side:
            after[_without_liberties(after, neighbour)] = 0
    if _without_liberties(after, point):
        raise InputDataError(f"{place}: the stone has no liberty", fix=FIX)
    return after


def _without_liberties(board: Board, point: int) -> list[int]:
    """The group of the stone at a point where it has no liberty, else nothing."""
    group, waiting = {point}, [point]
    while waiting:
        for neighbour in _neighbours(waiting.pop()):
            if board[neighbour] == 0:
                return []
            if board[neighbour] == board[point] and neighbour not in group:
                group.add(neighbour)
                waiting.append(neighbour)
    return sorted(group)


def _neighbours(point: int) -> Iterator[int]:
    row, column = divmod(point, SIDE)
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        if 0 <= row + down < SIDE and 0 <= column + right < SIDE:
            yield point + down * SIDE + right
