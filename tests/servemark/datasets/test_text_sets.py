"""WikiText-2, IMDB and the Children's Book Test on records that the test writes."""

from pathlib import Path

import pytest

from servemark.datasets import cbt, imdb, wikitext2
from servemark.errors import InputDataError


def wikitext(root: Path, train: str, test: str) -> Path:
    (root / "wiki.train.tokens").write_text(train)
    (root / "wiki.test.tokens").write_text(test)
    return root


def test_wikitext_is_cut_into_windows(tmp_path: Path) -> None:
    folder = wikitext(tmp_path, " = a = \n\n b <unk> c \n", " a b \n c c \n")
    assert wikitext2.build_vocabulary(folder / "wiki.train.tokens") == {"=": 1, "a": 2, "b": 3, "<unk>": 4, "c": 5}
    (window,) = wikitext2.read(folder, length=4)
    assert [part.tolist() for part in window] == [[2, 3, 0, 5], [3, 0, 5, 5]]
    with pytest.raises(InputDataError, match=r"wiki\.test\.tokens:1: 'd' is not in the training text"):
        list(wikitext2.read(wikitext(tmp_path, "a b\n", "a d\n"), length=2))
    with pytest.raises(InputDataError, match="one window needs 36"):
        list(wikitext2.read(wikitext(tmp_path, "a b\n", "a\n"), length=35))
    with pytest.raises(InputDataError, match="33,279 different words"):
        wikitext2.build_vocabulary(wikitext(tmp_path, " ".join(map(str, range(33_278))), "a") / "wiki.train.tokens")


def test_reviews_are_numbered_by_frequency(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for label, text in (("pos", "Good, good film!"), ("neg", "A bad film.")):
            (tmp_path / "aclImdb" / part / label).mkdir(parents=True)
            (tmp_path / "aclImdb" / part / label / "0_1.txt").write_text(text)
    positive, negative = imdb.read(tmp_path, cutoff=2)
    assert (positive.tolist(), negative.tolist()) == ([1, 1, 0], [2, 2, 0])  # film, good, and the unknown
    (tmp_path / "aclImdb" / "test" / "neg" / "0_1.txt").write_text("...")
    with pytest.raises(InputDataError, match=r"0_1\.txt is empty"):
        list(imdb.read(tmp_path))
    with pytest.raises(InputDataError, match="holds no reviews"):
        list(imdb.read(tmp_path / "elsewhere"))


QUESTION = "1 The cat saw a dog .\n2 It ran .\n21 The XXXXX ran .\tcat\t\tcat|dog|a|b|c|d|e|f|g|h\n\n"


def test_questions_come_with_their_story_and_candidates(tmp_path: Path) -> None:
    folder = tmp_path / "CBTest" / "data"
    folder.mkdir(parents=True)
    (folder / cbt.TRAINING).write_text("1 the the the cat cat .\n")
    (folder / cbt.TEST).write_text(QUESTION + QUESTION)
    one, other = cbt.read(tmp_path, vocabulary=5)  # the, cat and the full stop have numbers
    assert [part.tolist() for part in one] == [[2, 3, 1, 1, 1, 4, 1, 1, 4], [2, 1, 1, 4], [3] + [1] * 9]
    assert [part.tolist() for part in other] == [part.tolist() for part in one]
    damaged = {
        QUESTION.replace("|h", ""): r"2500ex\.txt:3: 9 candidates",
        "1 a story\n21 The XXXXX ran\tcat\n": ":2: 0 candidates",
        "x y\n": ":1: 'x y' has no",
    }
    for text, reason in damaged.items():
        (folder / cbt.TEST).write_text(text)
        with pytest.raises(InputDataError, match=reason):
            list(cbt.read(tmp_path, vocabulary=5))
