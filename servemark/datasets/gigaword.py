"""Annotated Gigaword for headline generation, as Rush et al. prepared it: one article's first sentence a line.

Rush, Chopra & Weston 2015, "A Neural Attention Model for Abstractive Sentence Summarization" (EMNLP); words are lower
case, digits are `#`, rare words `<unk>` or `UNK`. The text is LDC's, so its licence holders have to bring it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from servemark.datasets import COPY, Origin, _text
from servemark.errors import InputDataError

KEY = "gigaword"
ORIGIN = Origin("LDC2012T21, prepared by github.com/facebookarchive/NAMAS", None, "LDC membership", terms_from=COPY)
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
UNKNOWN = 1
UNKNOWN_WORDS = {"<unk>", "UNK", "unk"}
ARTICLES = ("input.txt", "valid.article.filter.txt")
"""The test set, or where it is not there the validation set."""
HEADLINES = {ARTICLES[0]: "task1_ref0.txt", ARTICLES[1]: "valid.title.filter.txt"}
"""The file of articles -> that of their headlines."""
TRAINING, VOCABULARY = "train.article.txt", "vocab.txt"
LAYOUT = (
    f"{ARTICLES[0]} or {ARTICLES[1]}, one tokenized sentence a line, beside {TRAINING} or a {VOCABULARY} of one word "
    "a line"
)


def read(folder: Path, size: int) -> Iterator[list[int]]:
    """Read the articles as ids below `size`, in order of the file.

    The vocabulary is `vocab.txt`, the most frequent word first, without the special words; where it is not there, the
    words of train.article.txt are counted, which takes half a minute. Raises InputDataError naming file and line.
    """
    return _encoded(folder, size)[0]


def summarised(folder: Path, size: int) -> tuple[list[list[int]], list[str], Mapping[int, str]]:
    """Read the articles as ids, their headlines, and the words by id. Raises InputDataError, also for missing ones."""
    encoded, source, ids = _encoded(folder, size)
    articles = list(encoded)
    headlines = [" ".join(words) for words in _text.tokens(folder / HEADLINES[source], layout=LAYOUT)]
    if len(headlines) != len(articles):
        raise InputDataError(
            f"{folder / HEADLINES[source]} has {len(headlines):,} headlines, {source} {len(articles):,} articles",
            fix=f"lay out {LAYOUT}",
        )
    return articles, headlines, {number: word for word, number in ids.items()}


def _encoded(folder: Path, size: int) -> tuple[Iterator[list[int]], str, Mapping[str, int]]:
    """Return the articles as ids, the name of their file, and the vocabulary."""
    if not folder.is_dir():
        raise InputDataError(f"{folder} is not a folder", fix=f"make it with {LAYOUT}")
    source = next((name for name in ARTICLES if (folder / name).exists()), ARTICLES[0])
    ids = _vocabulary(folder, size)
    articles = _text.tokens(folder / source, layout=LAYOUT)
    return (_text.encode(article, ids, unknown=UNKNOWN, limit=size) for article in articles), source, ids


def _vocabulary(folder: Path, size: int) -> dict[str, int]:
    if (folder / VOCABULARY).exists():
        return _text.vocabulary(folder / VOCABULARY, SPECIAL, layout=LAYOUT, header=False)
    counts = Counter[str]()
    for sentence in _text.tokens(folder / TRAINING, layout=LAYOUT):
        counts.update(sentence)
    words = (word for word, _ in counts.most_common() if word not in UNKNOWN_WORDS and word not in SPECIAL)
    return {word: i for i, word in enumerate([*SPECIAL, *words][:size])}
