"""CSV: a row a result, units in the columns, no formula."""

import csv
import io
from pathlib import Path

import pytest

from servemark.results.saved import Saved
from servemark.views.render.csv import to_csv
from tests.support.saved_documents import run


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t=", "\r=", "\n="])
def test_words_are_never_a_formula(tmp_path: Path, begin: str) -> None:
    found = run(tmp_path / "open")
    found.document["workload"] = f'{begin}cmd|" /C calc"!A0'
    [row] = read(to_csv([found]))
    assert row["workload"].startswith("'")
    assert "\n" not in row["workload"]


def test_a_negative_figure_is_a_number(tmp_path: Path) -> None:
    found = run(tmp_path / "open")
    found.document["figures"]["latency.mean"]["value"] = -1.5
    assert read(to_csv([found]))[0]["latency.mean_ms"] == "-1.5"


def test_the_names_of_columns_are_never_a_formula() -> None:
    """A suite's are the keys of its rows, which somebody else may have written."""
    row = {"workload": "ranking", '=cmd|" /C calc"!A0': 1, "two\nlines": 2}
    found = Saved("x", {"kind": "suite", "suite": "s", "engine": "e", "environment": {}, "rows": [row]})
    columns = read(to_csv([found]))[0].keys()
    assert {'\'=cmd|" /C calc"!A0', "two lines"} <= columns
