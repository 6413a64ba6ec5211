"""Requests from users' histories: Gowalla's check-ins and Amazon's reviews, on records that the test writes."""

import json
from pathlib import Path

import numpy as np
import pytest

from servemark.datasets import amazon_electronics, gowalla, ml_20m
from servemark.errors import InputDataError
from tests.support.workload_data import read_requests


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
    first, second = read_requests("ranking", check_ins(tmp_path, lines))
    assert (first["user"].tolist(), first["seq"].tolist()) == ([0], [3, 4, 5, 6, 7])
    assert (second["user"].tolist(), second["seq"].tolist()) == ([1], [0, 0, 0, 0, 4])


@pytest.mark.parametrize(("text", "message"), [("1 2 1\n3 4\n", r"train\.txt:2: 2 fields"), ("", "is empty")])
def test_check_ins_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputDataError, match=message):
        list(gowalla.histories(check_ins(tmp_path, text)))


def test_items_beyond_the_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="beyond the model"):
        read_requests("ranking", check_ins(tmp_path, "".join(f"1 {item} 1\n" for item in range(14_008))))


def test_a_din_request_leaves_the_last_review_out(tmp_path: Path) -> None:
    folder = reviews(tmp_path, ("u", "B3", 30), ("u", "B1", 10), ("v", "B2", 5), ("u", "B2", 20))
    assert list(amazon_electronics.histories(folder)) == [[0, 1, 2], [1]]
    positive, negative = read_requests("din", folder)  # the user of one review has no history
    assert positive["item"].tolist() == [2]
    assert negative["item"].tolist()[0] not in {0, 1, 2}
    for request in (positive, negative):
        assert request["hist_len"].tolist() == [2]
        np.testing.assert_array_equal(request["hist"][:3], [0, 1, 0])


@pytest.mark.parametrize(
    "line",
    ["{", '{"reviewerID": "u"}', "[]"]
    + [f'{{"reviewerID": "u", "asin": "B", "unixReviewTime": {time}}}' for time in ('"x"', "Infinity")],
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


def ratings(root: Path, *rows: str) -> Path:
    (root / ml_20m.FILE).write_text("\n".join([ml_20m.HEADER, *rows]) + "\n")
    return root


def test_ml_20m_numbers_users_and_films_as_they_appear_and_sorts_by_time(tmp_path: Path) -> None:
    folder = ratings(tmp_path, "7,50,3.5,100", "7,2,4.0,90", "3,50,1.0,5", "7,9,0.5,100", "3,60,2.0,5")
    assert [(user, films.tolist()) for user, films in ml_20m.histories(folder)] == [(0, [1, 0, 2]), (1, [0, 3])]


def test_an_ncf_query_is_the_last_film_and_999_unrated_ones(tmp_path: Path) -> None:
    folder = ratings(tmp_path, *(f"{user},{film},3.0,{-film}" for user in (4, 2) for film in range(40)))
    first, second = read_requests("ncf", folder)
    assert (first["user"].tolist(), second["user"].tolist()) == ([0], [1])
    for query in (first, second):
        film, *others = query["items"].tolist()
        assert film == 0  # rated last
        assert len(set(others)) == 999
        assert min(others) >= 40


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["1,2,3.5,10", "1,x,3.5,10"], r"ratings\.csv:3: no rating"),
        (["1,2,3.5,10", "1,2"], r"ratings\.csv:3: no rating"),
        ([], "holds no ratings"),
        ([f"{user},1,1.0,1" for user in range(138_494)], "138,494 users and 1 films, the official 138,493"),
    ],
)
def test_damaged_ml_20m_names_file_and_line(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(InputDataError, match=message):
        list(ml_20m.histories(ratings(tmp_path, *rows)))
    (tmp_path / ml_20m.FILE).write_text("user,film\n1,2\n")
    with pytest.raises(InputDataError, match=r"ratings\.csv:1: 'user,film' is not"):
        list(ml_20m.histories(tmp_path))
