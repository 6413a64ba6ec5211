"""The parts of a page: tables, figures with their numbers, lists, sections."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from markupsafe import Markup

from servemark.views.drawing.plot import Key, Plot

_FIGURE = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?\s?%?|-|")


@dataclass(frozen=True)
class Table:
    """Rows of words; columns of figures are set right. `folded`: behind a summary, its caption."""

    kind: ClassVar[str] = "table"
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    folded: bool = False
    marked: Sequence[int] = ()
    """Numbers of the rows that ask for attention."""

    @cached_property
    def numeric(self) -> list[bool]:
        """Columns that hold figures only."""
        columns = [[str(row[number]) for row in self.rows] for number in range(len(self.head))]
        return [bool(set(cells) - {"-", ""}) and all(map(_FIGURE.fullmatch, cells)) for cells in columns]


@dataclass(frozen=True)
class Figure:
    """A plot with its legend, and its numbers as a table."""

    kind: ClassVar[str] = "figure"
    title: str
    svg: Markup
    table: Table
    keys: Sequence[Key] = ()
    note: str = ""
    wide: bool = False

    @classmethod
    def of(cls, plot: Plot, title: str, table: Table, *, note: str = "", wide: bool = False) -> "Figure":
        """A drawn plot."""
        return cls(title, plot.svg, table, tuple(plot.keys), note, wide)


@dataclass(frozen=True)
class Facts:
    """Names and what they are."""

    kind: ClassVar[str] = "facts"
    rows: Sequence[tuple[str, str]]
    caption: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Lines:
    """Statements, one a line."""

    kind: ClassVar[str] = "lines"
    lines: Sequence[str]


Block = Table | Figure | Facts | Lines


@dataclass(frozen=True)
class Section:
    """A heading and what is below it; the figures of one stand side by side where there is room."""

    title: str
    blocks: Sequence[Block]

    @property
    def figures(self) -> list[Figure]:
        """Its figures."""
        return [block for block in self.blocks if isinstance(block, Figure)]


@dataclass(frozen=True)
class Badge:
    """A word of a verdict: `good`, `bad` or `open`."""

    word: str
    tone: str


@dataclass(frozen=True)
class Article:
    """One document: what it is about, its answer, and its sections; empty ones are left out."""

    about: str
    answer: str
    sections: Sequence[Section]
    badges: Sequence[Badge] = ()
    made: str = ""
    shown: Sequence[Section] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shown", [section for section in self.sections if section.blocks])
