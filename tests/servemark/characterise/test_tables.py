"""The data of AIBench's figures and tables: plain numbers that anybody can read."""

import csv
import io

import pytest

from servemark.characterise.tables import every
from tests.support.characterised import NAMES, document


def test_data_are_plain_numbers() -> None:
    found = every(document())
    rows = [*csv.DictReader(io.StringIO(found["table_5"].to_csv()))]
    assert {row["workload"] for row in rows} == {*NAMES}
    assert float(rows[0]["CoV of p50"]) == pytest.approx(0.0129 / 1.015, rel=0.01)
    assert rows[0]["CoV of energy"] == ""
    shares = [[float(value or 0) for value in row[2:]] for row in found["figure_5"].rows]
    assert [sum(row) for row in shares] == pytest.approx([1] * len(shares))
    hotspots = {row[0]: row[1:] for row in found["figure_6"].rows}
    assert hotspots["all of them"] == [6, 6, 6, 0, 3]
    ranking = next(row for row in found["table_6"].rows if row[0] == "ranking")
    assert ranking[4:] == [32.0, 40.0, 0.47]
