"""Requests from users' histories: Gowalla's check-ins and Amazon's reviews, on records that the test writes."""

import json
from pathlib import Path

import numpy as np
import pytest

from servemark.datasets import amazon_electronics, gowalla
from servemark.errors import InputDataError
from servemark.workload import Workload, get


def workload(name: str) -> Workload:
    found = get(name)
    assert found.read is not None
    return found


def check_ins(root: Path, text: str) -> Path:
    (root / "test").mkdir()
    (root / gowalla.FILE).write_text(text)
    return root


def reviews(root: Path, *rows: tuple[str, str, int]) -> Path:
    lines = [json.dumps({"reviewerID": user, "asin": asin, "unixReviewTime": time}) for user, asin, time in rows]
    (root / amazon_electronics.FILE).write_text("\n".join(lines) + "\n")
    return root


def test_a_ranking_request_is_the_last_five_check_ins(tmp_path: Path) -> None:
    lines = "".join(f"7 {100 + place} 1\n" for place in range(7)) + "9 103 1\n"
    read = workload("ranking").read
    assert read is not None
    first, second = read(check_ins(tmp_path, lines))
    assert (first["user"].tolist(), first["seq"].tolist()) == ([0], [3, 4, 5, 6, 7])
    assert (second["user"].tolist(), second["seq"].tolist()) == ([1], [0, 0, 0, 0, 4])


@pytest.mark.parametrize(("text", "message"), [("1 2 1\n3 4\n", r"train\.txt:2: 2 fields"), ("", "is empty")])
def test_check_ins_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputDataError, match=message):
        list(gowalla.histories(check_ins(tmp_path, text)))


def test_items_beyond_the_model_are_refused(tmp_path: Path) -> None:
    read = workload("ranking").read
    assert read is not None
    with pytest.raises(InputDataError, match="beyond the model"):
        list(read(check_ins(tmp_path, "".join(f"1 {item} 1\n" for item in range(14_001)))))


def test_a_din_request_leaves_the_last_review_out(tmp_path: Path) -> None:
    folder = reviews(tmp_path, ("u", "B3", 30), ("u", "B1", 10), ("v", "B2", 5), ("u", "B2", 20))
    assert list(amazon_electronics.histories(folder)) == [[0, 1, 2], [1]]
    din = workload("din")
    assert din.read is not None
    positive, negative = din.read(folder)  # the user of one review has no history
    assert positive["item"].tolist() == [2]
    assert negative["item"].tolist() != [2]
    for request in (positive, negative):
        assert request["hist_len"].tolist() == [2]
        np.testing.assert_array_equal(request["hist"][:3], [0, 1, 0])
        assert {t.name: (t.dtype, t.shape) for t in din.inputs} == {k: (v.dtype, v.shape) for k, v in request.items()}


@pytest.mark.parametrize(
    "line", ["{", '{"reviewerID": "u"}', "[]", '{"reviewerID": "u", "asin": "B", "unixReviewTime": "x"}']
)
def test_reviews_that_are_none(tmp_path: Path, line: str) -> None:
    folder = reviews(tmp_path, ("u", "B1", 10))
    with (folder / amazon_electronics.FILE).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputDataError, match=r"Electronics_5\.json:2: no review"):
        list(amazon_electronics.histories(folder))


def test_a_missing_file_says_what_belongs_there(tmp_path: Path) -> None:
    for read in (lambda: list(gowalla.histories(tmp_path)), lambda: list(amazon_electronics.histories(tmp_path))):
        with pytest.raises(InputDataError, match="is not there") as caught:
            read()
        assert caught.value.fix
