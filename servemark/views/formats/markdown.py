"""An article as Markdown, for a pull request: the answer, what failed, the tables. Words are escaped."""

import re
from collections.abc import Sequence

from servemark.output import printable
from servemark.views.page.blocks import Article, Block, Facts, Figure, Lines, Table

_SPECIAL = re.compile(r"([\\`*_\[\]{}|~#])")


def to_markdown(articles: Sequence[Article]) -> str:
    """Figures are left to the page; long tables and the environment are folded."""
    return "\n\n".join(part for article in articles for part in _article(article)) + "\n"


def escaped(words: str) -> str:
    """Words that format nothing, link nowhere and call nobody."""
    text = printable(words).replace("\n", " ").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", text).replace("@", "&#64;").replace("://", ":&#47;&#47;")


def _article(article: Article) -> list[str]:
    badges = " ".join(f"**{escaped(badge.word)}**" for badge in article.badges)
    parts = [f"### {escaped(article.answer)}", f"{badges} {escaped(article.about)}".strip()]
    for section in article.shown:
        blocks = [text for block in section.blocks if (text := _block(block))]
        if blocks:
            parts += [f"#### {escaped(section.title)}", *blocks]
    return [*parts, *([f"<sub>{escaped(article.made)}</sub>"] if article.made else [])]


def _block(block: Block) -> str:
    if isinstance(block, Figure):
        return ""
    if isinstance(block, Lines):
        return "\n".join(f"- {escaped(line)}" for line in block.lines)
    table = _facts(block) if isinstance(block, Facts) else block
    text = _pipes(table)
    if not table.folded:
        return text
    return f"<details><summary>{escaped(table.caption)}</summary>\n\n{text}\n\n</details>"


def _facts(block: Facts) -> Table:
    return Table(["", ""], block.rows, block.caption, block.folded)


def _pipes(table: Table) -> str:
    marks = ["--:" if numeric else "---" for numeric in table.numeric]
    rows = [table.head, *table.rows]
    lines = [f"| {' | '.join(escaped(str(cell)) for cell in row)} |" for row in rows]
    return "\n".join([lines[0], f"|{'|'.join(marks)}|", *lines[1:]])
