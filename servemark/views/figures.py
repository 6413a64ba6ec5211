"""Figures for a reader: all of a document in a table by subject, and those that no other line has told."""

from typing import Any, TypeVar

from servemark.figures.figure import Figure
from servemark.figures.registry import in_order
from servemark.figures.value import Figures, FigureValue
from servemark.quantities import figure as written
from servemark.quantities import interval_words, with_interval
from servemark.views.blocks import Table

Document = TypeVar("Document")


class Told(dict[str, FigureValue]):
    """Figures of a document that remember which were read, so that a report can end with the others."""

    def __init__(self, figures: Figures) -> None:
        super().__init__(figures)
        self._read: set[str] = set()

    def get(self, tag: str, default: Any = None) -> Any:
        """Return a figure, and remember it."""
        self._read.add(tag)
        return super().get(tag, default)

    def others(self) -> list[str]:
        """Return a line for each subject with figures that were not read; distributions have rows, details a page."""
        lines: dict[str, list[str]] = {}
        for figure, found in in_order(self):
            told = figure.tag in self._read or figure.distribution or figure.detail
            if not told and found["value"] is not None:
                lines.setdefault(figure.subject, []).append(f"{figure.name} {_words(figure, found)}")
        return [f"{subject.replace('_', ' ')}: {', '.join(words)}" for subject, words in lines.items()]


def table_of(figures: Figures) -> Table:
    """Return all figures, with their intervals, their samples, or why they are not known."""
    rows = [
        [
            figure.tag,
            written(found["value"]),
            figure.unit.name,
            interval_words(found.get("ci95")),
            f"{found['n']:,}" if "n" in found else "",
            found.get("reason", ""),
        ]
        for figure, found in in_order(figures)
    ]
    return Table(
        ["figure", "value", "unit", "95 % interval", "n", "not known because"], rows, "All figures", folded=True
    )


def _words(figure: Figure, found: FigureValue) -> str:
    return with_interval(f"{written(found['value'])} {figure.unit.name}".rstrip(), found.get("ci95"))
