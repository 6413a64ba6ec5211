"""Answers that are not numbers, by every metric: one of them is one wrong answer, and the figure is still known."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servemark.quality.document import score
from servemark.quality.metrics import metric_named, metrics
from servemark.quality.scoring import Journal, Scorer
from servemark.workload import Example, LabelledSet, Quality, Sample
from tests.servemark.quality.metrics.test_metrics import EXAMPLES, label_of

ANSWERS = {name: answers for name, (_, answers) in EXAMPLES.items()}
COUNT = 6


def scored(name: str, folder: Path, first: Sample, prediction: Any) -> Any:
    """The score of examples of which the first has other outputs than the rest."""
    metric, parts = metric_named(name), len(ANSWERS[name])

    def example(number: int) -> Example:
        return Example(({},) * parts, label_of(name, number))

    data = LabelledSet(COUNT, example, prediction, parts)
    with Journal(folder) as journal:
        scorer = Scorer(metric, data, journal)
        for number, part, _ in list(scorer.requests(range(COUNT))):
            scorer.answered(number, part, first if number == 0 else {"part": np.array([part])})
        rows = list(journal.scored.values())
    asked = Quality(name, 0.5, "a protocol")
    return score(metric, asked, rows, weights="trained", source="a", size=6, samples=None, seed=0, continued=0)


@pytest.mark.parametrize("name", metrics())
def test_one_answer_of_nan_is_one_wrong_answer(name: str, tmp_path: Path) -> None:
    answers = ANSWERS[name]
    first = {"part": np.array([0]), "more": np.array([1, math.nan], np.float16)}
    found = scored(name, tmp_path, first, lambda outputs, _: answers[int(outputs["part"][0])])
    metric = metric_named(name)
    rows = [metric.row(answers, label_of(name, number)) for number in range(1, COUNT)]
    wrong = metric.wrong(label_of(name, 0))
    expected = metric.values(rows if wrong is None else [wrong, *rows])[0]
    assert found["figures"][0]["value"] == pytest.approx(expected)
    assert (found["wrong"], found["left_out"], found["not_numbers"]) == ((0, 1, 1) if wrong is None else (1, 0, 1))
    assert wrong is not None or found["outcome"] == "not judged"
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("error", [IndexError, KeyError, ValueError, TypeError])
def test_an_answer_that_is_not_the_model_s_is_wrong(error: type[Exception], tmp_path: Path) -> None:
    def prediction(outputs: Sample, _: Any) -> str:
        if "more" in outputs:
            raise error
        return "a b"

    found = scored("WER", tmp_path, {"more": np.array([29])}, prediction)
    assert (found["wrong"], found["left_out"], found["not_numbers"]) == (1, 0, 0)
    assert json.loads((tmp_path / "examples.jsonl").read_text().splitlines()[0])[-1] == "not_decodable"


def floating(name: str) -> bool:
    """True where a metric's prediction is one array of floating point."""
    first = ANSWERS[name][0]
    return isinstance(first, np.ndarray) and first.dtype.kind == "f"


@pytest.mark.parametrize("value", [math.inf, -math.inf])
@pytest.mark.parametrize("name", [name for name in metrics() if floating(name)])
def test_an_infinite_answer_is_an_answer_or_a_wrong_one(name: str, value: float, tmp_path: Path) -> None:
    def prediction(outputs: Sample, _: Any) -> Any:
        answer = ANSWERS[name][int(outputs["part"][0])]
        return np.full_like(answer, value) if "more" in outputs else answer

    found = scored(name, tmp_path, {"part": np.array([0]), "more": np.array([0])}, prediction)
    assert found["figures"][0]["value"] is not None
    json.dumps(found, allow_nan=False)
