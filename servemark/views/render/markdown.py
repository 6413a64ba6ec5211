"""Documents as Markdown, for a page or a pull request: the answer, what failed, the tables. Words are escaped."""

import re
from collections.abc import Sequence

from servemark.output import printable
from servemark.results.saved import Saved
from servemark.views.blocks import Article, Block, Checks, Facts, Figure, Lines, Table
from servemark.views.kinds import kind_of

_SPECIAL = re.compile(r"([\\`*_\[\]{}|~#])")


def to_markdown(documents: Sequence[Saved]) -> str:
    """The articles below each other. Figures are left to the page; long tables and the environment are folded."""
    articles = [kind_of(saved).article(saved) for saved in documents]
    return "\n\n".join(part for article in articles for part in _article(article)) + "\n"


def escaped(words: str) -> str:
    """Words that format nothing, link nowhere and call nobody."""
    text = printable(words).replace("\n", " ").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", text).replace("@", "&#64;").replace("://", ":&#47;&#47;")


def _article(article: Article) -> list[str]:
    badges = " ".join(f"**{escaped(badge.word)}**" for badge in article.badges)
    parts = [f"### {escaped(article.answer)}", f"{badges} {escaped(article.about)}".strip()]
    parts += [escaped(line) for line in article.explained]
    for section in article.shown:
        blocks = [text for block in section.drawn if (text := _block(block))]
        if blocks:
            parts += [f"#### {escaped(section.title)}", *blocks]
    return [*parts, *([f"<sub>{escaped(article.made)}</sub>"] if article.made else [])]


def _block(block: Block) -> str:
    match block:
        case Figure():
            return pipes(block.table) if block.tabled else ""
        case Lines():
            return "\n".join(f"- {escaped(line)}" for line in block.lines)
        case Checks():
            return pipes(block.table)
        case Facts():
            return _folded(Table(["", ""], block.rows, block.caption, block.folded))
        case Table():
            return _folded(block)


def _folded(table: Table) -> str:
    text = pipes(table)
    if not table.folded:
        return text
    return f"<details><summary>{escaped(table.caption)}</summary>\n\n{text}\n\n</details>"


def pipes(table: Table) -> str:
    """A table, its columns of figures set right."""
    marks = ["--:" if numeric else "---" for numeric in table.numeric]
    rows = [table.head, *table.rows]
    lines = [f"| {' | '.join(escaped(str(cell)) for cell in row)} |" for row in rows]
    return "\n".join([lines[0], f"|{'|'.join(marks)}|", *lines[1:]])
