"""The page of trained weights: values, targets, and what is kept of fp32's."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from exporters import engines
from recipes import measure
from recipes.training import Trained, save
from servemark.quality.document import intervals
from servemark.quality.metrics import metric_named
from servemark.views.wording import score as number


def result(precision: str, value: float) -> Any:
    figure = {"name": "HR@10", "value": value, "ci95": [value - 0.03, value + 0.03], "ci95_method": "wilson"}
    score = {
        "metric": "HR@10",
        "protocol": "a protocol",
        "figures": [figure],
        "target": 0.635,
        "outcome": "met" if value >= 0.635 else "missed",
        "wrong": 0,
        "data": {"scored": 943, "size": 943, "source": "ml-100k", "sha256": "ab" * 32},
    }
    return {"engine": "onnxruntime", "precision": precision, "quality": score}


def test_a_row_says_what_is_kept_of_fp32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save("a_recipe", Trained(torch.nn.Linear(1, 1), 3, 9, 0.7), data="some data", metric="HR@10", folder=tmp_path)
    monkeypatch.setattr(measure, "WEIGHTS", tmp_path)
    said = measure.section("a_recipe", [result("fp32", 0.66), result("fp16", 0.66), result("int8", 0.63)])
    assert "python -m recipes.a_recipe`, some data. Validation: HR@10 0.7000 in epoch 3 of 9" in said
    assert "| onnxruntime | fp32 | 622 | 0.6600 | 0.6300 to 0.6900 | 0.635: met | - | 0 |" in said
    assert "| 100.00%, keeps 99.9 % |" in said
    assert "| 0.635: missed | 95.45%, below 99 % |" in said


def committed() -> list[tuple[str, int, list[str]]]:
    """The rows of the committed page: metric, number of examples, cells."""
    found = []
    for part in measure.PAGE.read_text().split("\n## ")[1:]:
        said = re.search(r"^(.+?): .* ([0-9,]+) of \2 examples of ", part, re.MULTILINE)
        for line in part.splitlines() if said else ():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if said and cells[0] in engines():
                found.append((said[1], int(said[2].replace(",", "")), cells))
    return found


def test_the_committed_page_has_the_intervals_of_today_s_rule() -> None:
    rows = committed()
    assert len(rows) > 10
    for metric, count, cells in rows:
        right = int(cells[measure.HEAD.index("right")].replace(",", ""))
        width = len(metric_named(metric).figures)
        answers = [[float(index < right)] * width + [1] for index in range(count)]
        low, high = intervals(metric_named(metric), answers, seed=0)[0].bounds or (None, None)
        assert cells[measure.HEAD.index("value")] == number(right / count), cells
        assert cells[measure.HEAD.index("95 % interval")] == f"{number(low)} to {number(high)}", cells
