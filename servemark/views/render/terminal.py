"""An article on the terminal: the answer first; what is as it should be only with --verbose."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import table as rich
from rich.console import Console, RenderableType
from rich.text import Text

from servemark.errors import ResultError, parsing
from servemark.output import EVERYTHING, says, stdout
from servemark.results.saved import Saved
from servemark.views.blocks import Article, Block, Check, Checks, Facts, Figure, Lines, Routine, Table
from servemark.views.kinds import kind_of

_TONES = {"bad": "bold red", "open": "bold yellow", "good": "bold green"}
"""Styles of an answer; the first one that a badge has."""


def show(found: Saved | Mapping[str, Any], console: Console | None = None) -> None:
    """Print a document of any kind. Raises ResultError."""
    saved = found if isinstance(found, Saved) else Saved("the document", dict(found))
    with parsing(saved.name, ResultError, fix="name a whole result directory"):
        parts = list(_parts(kind_of(saved).article(saved), everything=says(EVERYTHING)))
    console = console or stdout()
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, Text))


def _parts(article: Article, *, everything: bool) -> Iterator[RenderableType]:
    tones = {badge.tone for badge in article.badges}
    yield Text(article.answer, style=next((style for tone, style in _TONES.items() if tone in tones), "bold"))
    yield from _lines(article.explained, everything)
    yield Text(article.about)
    before: Block | None = None
    for section in article.sections:
        blocks = section.at_once
        if section.titled and blocks:
            yield Text(section.title, style="bold")
        for block in blocks:
            if isinstance(block, Figure) and not block.tabled:
                continue
            if isinstance(block, Table) and isinstance(before, Table) and not section.titled:
                yield Text()
            yield from _block(block, everything)
            before = block


def _block(block: Block, everything: bool) -> Iterator[RenderableType]:
    match block:
        case Lines():
            yield from _lines(block.lines, everything)
        case Checks():
            yield from _checks(block, everything)
        case Facts():
            yield from (Text(f"{name}: {words}") for name, words in block.rows)
        case Figure():
            yield from _table(block.table, everything)
        case Table():
            yield from _table(block, everything)


def _lines(lines: Sequence[str], everything: bool) -> Iterator[Text]:
    for line in lines:
        said = line.short if isinstance(line, Routine) and not everything else line
        if said:
            yield Text(said)


def _table(table: Table, everything: bool) -> Iterator[RenderableType]:
    most, narrow = (None, None) if everything else (table.most, table.narrow)
    made = rich.Table(box=None, pad_edge=False, header_style="bold")
    for name, numeric in list(zip(table.head, table.numeric, strict=True))[:narrow]:
        made.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for number, row in enumerate(table.rows[:most]):
        made.add_row(*row[:narrow], style="red" if number in table.marked else None)
    yield made
    if most is not None and len(table.rows) > most:
        yield Text(f"and {len(table.rows) - most} more rows (-v shows all)")


def _checks(found: Checks, everything: bool) -> Iterator[Text]:
    """The verdict; names, answers and figures; below each that does not hold, what to do."""
    word, _, rest = found.said.partition(";")
    style = "bold green" if word == "VALID" else "bold red"
    yield Text.assemble("Result is : ", (word, style), f";{rest}" if rest else "")
    width = max(20, *(len(each.name) for each in found.checks))
    constraints = [each for each in found.checks if each.kind == "constraint" and each.ok is not None]
    for each in constraints:
        if everything or not each.ok:
            yield from _check(each, width)
    if not everything:
        yield Text(
            f"  {sum(bool(each.ok) for each in constraints)} of {len(constraints)} constraints hold (-v shows all)"
        )
    for each in found.checks:
        if each not in constraints:
            yield from _check(each, width)


def _check(each: Check, width: int) -> Iterator[Text]:
    style = "" if each.ok is None else "green" if each.ok else "bold red"
    said = f"not judged: {each.note}" if each.ok is None else each.words
    yield Text.assemble(f"  {each.name:<{width}} ", (f"{each.word:<3}", style), f"  {said}" if said else "")
    if each.ok is False:
        yield Text(f"  {'':<{width}} -> {each.note}", style="yellow")
    if each.more:
        yield Text(f"  {'':<{width}} {each.more}")
