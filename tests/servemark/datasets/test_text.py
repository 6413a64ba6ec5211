"""Text data sets: official layouts into ids, subwords, and what is wrong with a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from servemark.datasets import cbt, gigaword, imdb, wikitext2, wmt
from servemark.errors import InputDataError
from tests.support.workload_data import read_requests

CODES = "#version: 0.2\nl o\nlo w</w>\ne r</w>\nn e\nlo w\n"
VOCABULARY = "<unk>\n<s>\n</s>\nlow\nlow@@\ner\nne@@\nw@@\n"


def lay_out(folder: Path, **files: str | bytes) -> Path:
    """Write files; `__` stands for a dot and `___` for a slash in their names."""
    for name, content in files.items():
        path = folder / name.replace("___", "/").replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def requests(name: str, folder: Path) -> list[tuple[list[int], int]]:
    """Ids and length of all requests that a workload reads."""
    return [(each["src_ids"].tolist(), int(each["src_len"][0])) for each in read_requests(name, folder)]


def padded(ids: list[int], size: int) -> tuple[list[int], int]:
    return ids + [0] * (size - len(ids)), len(ids)


def test_gigaword_counts_its_vocabulary(tmp_path: Path) -> None:
    folder = lay_out(
        tmp_path,
        train__article__txt="the cat sat on the mat .\nthe cat UNK ##.# .\n",
        input__txt="the dog sat .\ncat <unk> the the\n",
    )
    # the 3, cat 2, . 2, then in order of appearance sat, on, mat, ##.#
    assert requests("summarization", folder) == [padded([4, 1, 7, 6], 55), padded([5, 1, 4, 4], 55)]


def test_gigaword_prefers_a_vocabulary_and_cuts_long_articles(tmp_path: Path) -> None:
    folder = lay_out(
        tmp_path, vocab__txt="a 30\nb 20\nc 10\n", valid__article__filter__txt="b a d\n" + "c " * 70 + "\n"
    )
    assert requests("summarization", folder) == [padded([5, 4, 1], 55), ([6] * 55, 55)]


def test_words_beyond_the_vocabulary_are_unknown(tmp_path: Path) -> None:
    folder = lay_out(tmp_path, vocab__txt="a\nb\nc\n", input__txt="a b c\n")
    assert list(gigaword.read(folder, 6)) == [[4, 5, 1]]


def test_subwords_are_those_of_subword_nmt(tmp_path: Path) -> None:
    merges = wmt.read_merges(lay_out(tmp_path, codes=CODES) / "codes")
    assert wmt.segment(["low", "lower", "newer", "o"], merges) == ["low", "low@@", "er", "ne@@", "w@@", "er", "o"]
    # the pair of the lowest rank goes first, everywhere in the word
    merges = wmt.read_merges(lay_out(tmp_path, codes="#version: 0.2\na b\nb a\nab ab\nabab a</w>\n") / "codes")
    assert wmt.segment(["ababa", "babab", "a"], merges) == ["ababa", "b@@", "ab@@", "a@@", "b", "a"]


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("vocabulary", ["vocab__bpe__32000", "vocab__bpe__32000__de"])
def test_nmt_reads_german_subwords(tmp_path: Path, split: bool, vocabulary: str) -> None:
    # wmt16_en_de.sh leaves the sentences before their tokens beside them
    files = {f"wmt16_de_en___{vocabulary}": VOCABULARY, "wmt16_de_en___newstest2014__de": "Low lower.\nNewer xlow.\n"}
    if split:
        files["wmt16_de_en___newstest2014__tok__bpe__32000__de"] = "low low@@ er\nne@@ w@@ er x@@ low\n"
    else:
        files["wmt16_de_en___newstest2014__tok__de"] = "low lower\nnewer xlow\n"
        files["wmt16_de_en___bpe__32000"] = CODES
    first, second = requests("nmt", lay_out(tmp_path, **files))
    assert first == padded([3, 4, 5], 50)
    assert second == padded([6, 7, 5, 0, 3], 50)


def test_transformer_reads_english_of_either_layout(tmp_path: Path) -> None:
    words = "<unk>\n<s>\n</s>\nthe\n,\n"
    folder = lay_out(tmp_path, stanford___newstest2014__en="the cat , the\n", stanford___vocab__50K__en=words)
    assert requests("transformer", folder) == [padded([3, 0, 4, 3], 64)]
    folder = lay_out(tmp_path, newstest2015__tok__bpe__32000__en="er low\n", vocab__bpe__32000=VOCABULARY)
    (folder / "stanford" / "newstest2014.en").unlink()
    assert requests("transformer", folder) == [padded([5, 3], 64)]


GIGAWORD: dict[str, str | bytes] = {"vocab__txt": "a\nb\n", "input__txt": "a b\nb\n"}
WMT: dict[str, str | bytes] = {
    "newstest2014__tok__de": "low\n",
    "bpe__32000": CODES,
    "vocab__bpe__32000": VOCABULARY,
}


@pytest.mark.parametrize(
    ("name", "files", "place", "reason"),
    [
        ("summarization", {"input__txt": "a b\n\nb\n"}, "input.txt:2", "no words"),
        ("summarization", {"input__txt": b"a b\na \xff b\n"}, "input.txt:2", "no UTF-8"),
        ("summarization", {"input__txt": ""}, "input.txt", "is empty"),
        ("summarization", {"vocab__txt": "a\nb\na\n"}, "vocab.txt:3", "'a' is there twice"),
        ("summarization", {"vocab__txt": "a\n\nb\n"}, "vocab.txt:2", "no word"),
        ("summarization", {"vocab__txt": ""}, "vocab.txt", "is empty"),
        ("nmt", {"bpe__32000": "l o\n"}, "bpe.32000:1", "not a known version"),
        ("nmt", {"bpe__32000": CODES + "l o w\n"}, "bpe.32000:7", "3 symbols"),
        ("nmt", {"vocab__bpe__32000": "<s>\n<unk>\n"}, "vocab.bpe.32000:1", "'<s>' instead of '<unk>'"),
        ("nmt", {"vocab__bpe__32000": VOCABULARY + "er\n"}, "vocab.bpe.32000:9", "'er' is there twice"),
        ("nmt", {"newstest2014__tok__de": "low\n \n"}, "newstest2014.tok.de:2", "no words"),
    ],
)
def test_damaged_text_names_file_and_line(
    tmp_path: Path, name: str, files: dict[str, str | bytes], place: str, reason: str
) -> None:
    folder = lay_out(tmp_path, **((GIGAWORD if name == "summarization" else WMT) | files))
    with pytest.raises(InputDataError) as caught:
        requests(name, folder)
    assert f"{folder}/{place}" in caught.value.what
    assert reason in caught.value.what


@pytest.mark.parametrize(
    ("name", "missing", "reason"),
    [
        ("summarization", "input__txt", "input.txt is not there"),
        ("summarization", "vocab__txt", "train.article.txt is not there"),
        ("nmt", "newstest2014__tok__de", "holds no newstest2014 or newstest2015 or newstest2013 in 'de'"),
        ("nmt", "bpe__32000", "bpe.32000 is not there"),
        ("nmt", "vocab__bpe__32000", "vocab.bpe.32000.de is not there"),
    ],
)
def test_a_missing_file_is_named_with_the_layout(tmp_path: Path, name: str, missing: str, reason: str) -> None:
    files: Any = {k: v for k, v in (GIGAWORD if name == "summarization" else WMT).items() if k != missing}
    with pytest.raises(InputDataError) as caught:
        requests(name, lay_out(tmp_path, **files))
    assert reason in caught.value.what
    assert caught.value.fix is not None
    assert ("newstest2014" if name == "nmt" else "input.txt") in caught.value.fix


def test_captions_are_asked_for_coco2014(tmp_path: Path) -> None:
    for place, colour in (("val2014/COCO_val2014_000000000042.jpg", "white"), ("train2014/x.jpg", "black")):
        (tmp_path / place).parent.mkdir()
        Image.new("RGB", (640, 480), colour).save(tmp_path / place)
    (picture,) = read_requests("image_caption", tmp_path)
    assert float(picture["image"].mean()) == pytest.approx(2.4, abs=0.1)
    (picture,) = read_requests("image_caption", tmp_path / "train2014")
    np.testing.assert_allclose(picture["image"].mean(), -2.0, atol=0.1)


def test_im2txt_stretches_pictures_and_takes_the_centre(tmp_path: Path) -> None:
    picture = Image.new("RGB", (640, 480), "black")
    picture.paste("red", (320, 0, 640, 480))
    picture.save(tmp_path / "x.png")
    (request,) = read_requests("image_caption_im2txt", tmp_path)
    image = request["image"]
    assert image.shape == (3, 299, 299)
    assert (image[:, :, :148] == -1).all()
    assert (image[0, :, 151:] == 1).all()
    assert (image[1:] == -1).all()


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
