"""Figures as SVG in the page: axes, lines, points, bars, cells. Knows no documents, and needs no script."""
