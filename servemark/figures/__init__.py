"""The figures of a run: each is declared once, in the file of its subject; everything that shows figures reads these.

A module of this package has `FIGURES`, a sequence of `Figure` and `Distribution`. Whatever is declared there stands in
result.json, on the terminal and the page, in the spreadsheet, in MLflow, at the metrics endpoint, on the live screen,
in mixes and in the reference; and it can be an objective, fail a comparison, and be followed by `history`.
"""
