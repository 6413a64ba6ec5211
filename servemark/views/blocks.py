"""The parts of an article: what a terminal, a page, Markdown and a pipeline show of a document. Knows no documents."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from markupsafe import Markup

from servemark.quantities import interval_words
from servemark.views.charts import Bar, bars
from servemark.views.drawing import Key, Plot

_NUMBER = r"[-+]?[\d.,]+(?:e[-+]?\d+)?\s?%?"
_FIGURE = re.compile(rf"{_NUMBER}(?: to {_NUMBER})?|-|")


class Routine(str):
    """Words that say that all is as it should be. A terminal shows `short` in their place, and all with --verbose."""

    __slots__ = ("short",)
    short: str

    def __new__(cls, words: str, short: str = "") -> Self:
        found = super().__new__(cls, words)
        found.short = short
        return found


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
    most: int | None = None
    """Maximum number of rows on a terminal."""
    narrow: int | None = None
    """Number of columns on a terminal."""

    @cached_property
    def numeric(self) -> list[bool]:
        """Columns that hold figures only."""
        columns = [[str(row[number]) for row in self.rows] for number in range(len(self.head))]
        return [bool(set(cells) - {""}) and all(map(_FIGURE.fullmatch, cells)) for cells in columns]

    @classmethod
    def known(cls, head: Sequence[str], rows: Sequence[Sequence[str]], always: Sequence[str] = ()) -> Self:
        """A table without the columns that hold nothing but dashes, but for the first and those of `always`."""
        kept = [
            number
            for number, name in enumerate(head)
            if number == 0 or name in always or {row[number] for row in rows} - {"-", ""}
        ]
        return cls([head[number] for number in kept], [[row[number] for number in kept] for row in rows])


@dataclass(frozen=True)
class Figure:
    """A plot with its legend, and its numbers as a table. A terminal shows the table of one that is `tabled`."""

    kind: ClassVar[str] = "figure"
    title: str
    svg: Markup
    table: Table
    keys: Sequence[Key] = ()
    note: str = ""
    wide: bool = False
    tabled: bool = False

    @classmethod
    def of(
        cls, plot: Plot, title: str, table: Table, *, note: str = "", wide: bool = False, tabled: bool = False
    ) -> "Figure":
        """A drawn plot."""
        return cls(title, plot.svg, table, tuple(plot.keys), note, wide, tabled)

    @classmethod
    def of_bars(
        cls,
        title: str,
        unit: str,
        drawn: Sequence[Bar],
        head: Sequence[str],
        *,
        note: str = "",
        points: bool = False,
        around: Sequence[float] = (),
    ) -> "Figure":
        """Bars, or points; the columns of their table are their words, value, interval, and what is said of them."""
        rows = [[bar.words, bar.formatted, interval_words(bar.interval, bar.digits), bar.said] for bar in drawn]
        if len(head) == 3 and not any(bar.interval for bar in drawn):
            rows = [[words, value, said] for words, value, _, said in rows]
        table = Table(head, [row[: len(head)] for row in rows])
        return cls(title, bars(title, unit, drawn, points=points, around=around), table, note=note)


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


@dataclass(frozen=True)
class Check:
    """A thing that was judged. `ok` is None where it could not be; `note` is its remedy, or the reason why not."""

    name: str
    ok: bool | None
    word: str = "-"
    """The answer, like "Yes" or "MISSED"."""
    value: str = "-"
    limit: str = "-"
    unit: str = ""
    note: str = ""
    more: str = ""
    """Confidence in the answer."""
    subject: str = ""
    """Name of the run or the series, for a pipeline."""
    kind: str = ""
    """Either `constraint` or `objective`, or nothing."""

    @property
    def words(self) -> str:
        """The value beside its limit, like "20 (limit 50 ms)"; without a limit the value alone."""
        if self.limit == "-":
            return self.value.strip("-")
        limit = self.limit if self.limit.startswith("at least") else f"limit {self.limit}"
        return f"{self.value} ({limit} {self.unit}".strip() + ")"


@dataclass(frozen=True)
class Checks:
    """Constraints and objectives. `said` is the verdict, and begins with VALID or INVALID.

    A terminal shows the verdict, the objectives, the constraints that do not hold, and the number of the others.
    """

    kind: ClassVar[str] = "checks"
    checks: Sequence[Check]
    said: str

    @property
    def ordered(self) -> list[Check]:
        """Constraints that do not hold, objectives, and the constraints that hold."""
        return sorted(self.checks, key=lambda each: (each.kind == "constraint") * (each.ok is not False))

    @cached_property
    def table(self) -> Table:
        """All checks as rows."""
        head = ["", "holds", "value", "limit", "unit", "what to do", "how sure"]
        rows = [
            [each.name, each.word, each.value, each.limit, each.unit, each.note, each.more] for each in self.ordered
        ]
        marked = [number for number, each in enumerate(self.ordered) if each.ok is False]
        found = Table.known(head, rows, head[:2])
        return Table(found.head, found.rows, marked=marked)


Block = Table | Figure | Facts | Lines | Checks


@dataclass(frozen=True)
class Section:
    """A heading and what is below it. Blocks given as a function are for pages alone, which draw them.

    Figures stand side by side where there is room. `titled`: a terminal shows the heading, too.
    """

    title: str
    blocks: Sequence[Block] | Callable[[], Sequence[Block]]
    titled: bool = False

    @property
    def at_once(self) -> list[Block]:
        """The blocks for a terminal; empty ones are left out."""
        return [] if callable(self.blocks) else self.drawn

    @cached_property
    def drawn(self) -> list[Block]:
        """All blocks; empty ones are left out."""
        blocks = self.blocks() if callable(self.blocks) else self.blocks
        return [block for block in blocks if not _is_empty(block)]


def _is_empty(block: Block) -> bool:
    match block:
        case Table() | Facts():
            return not block.rows
        case Lines():
            return not block.lines
    return False


@dataclass(frozen=True)
class Badge:
    """A word of a verdict: `good`, `bad` or `open`."""

    word: str
    tone: str


@dataclass(frozen=True)
class Article:
    """One document: its answer, what that means, what it is about, and its sections; empty ones are left out."""

    about: str
    answer: str
    sections: Sequence[Section]
    badges: Sequence[Badge] = ()
    made: str = ""
    explained: Sequence[str] = ()

    @cached_property
    def shown(self) -> list[Section]:
        """The sections of a page."""
        return [section for section in self.sections if section.drawn]
