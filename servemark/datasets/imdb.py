"""IMDB's film reviews in the official layout: `aclImdb/{train,test}/{pos,neg}/*.txt`, one review a file.

Maas et al. 2011, "Learning Word Vectors for Sentiment Analysis" (ACL). The vocabulary is PaddlePaddle's: words in lower
case without punctuation that come more than 150 times in all labelled reviews. They count from 0, from the most to the
least frequent, equals in alphabetical order; what is unknown comes last. The official reviews give 5,147.
"""

import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.datasets import CATALOGUE, Origin
from servemark.errors import InputDataError, parsing

KEY = "imdb"
ORIGIN = Origin("ai.stanford.edu/~amaas/data/sentiment", 84, "cite the paper", size_from=CATALOGUE)
VOCABULARY = 5_147
CUTOFF = 150
LABELS = ("pos", "neg")
FIX = f"unpack the official aclImdb_v1.tar.gz into DATA_ROOT/{KEY}/"
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def read(folder: Path, cutoff: int = CUTOFF) -> Iterator[npt.NDArray[np.int32]]:
    """Yield the test reviews' ids, positive ones first. Raises InputDataError naming the file."""
    root = folder / "aclImdb" if (folder / "aclImdb").is_dir() else folder
    counts = Counter(word for part in ("train", "test") for path in _files(root / part) for word in _words(path))
    frequent = sorted((word for word in counts if counts[word] > cutoff), key=lambda word: (-counts[word], word))
    if len(frequent) >= VOCABULARY:
        raise InputDataError(f"{root} has {len(frequent) + 1:,} frequent words, the official {VOCABULARY:,}", fix=FIX)
    ids = {word: index for index, word in enumerate(frequent)}
    for path in _files(root / "test"):
        yield np.array([ids.get(word, len(ids)) for word in _words(path)], np.int32)


def labels(folder: Path) -> list[int]:
    """The classes of the test reviews in the order of `read`, as PaddlePaddle numbers them: 0 positive, 1 negative.

    Raises InputDataError.
    """
    root = folder / "aclImdb" if (folder / "aclImdb").is_dir() else folder
    return [LABELS.index(path.parent.name) for path in _files(root / "test")]


def _files(folder: Path) -> Iterator[Path]:
    for label in LABELS:
        found = sorted((folder / label).glob("*.txt"))
        if not found:
            raise InputDataError(f"{folder / label} holds no reviews", fix=FIX)
        yield from found


def _words(path: Path) -> list[str]:
    with parsing(path, InputDataError, fix=FIX):
        words = files.text(path, files.DATA_BYTES).translate(_PUNCTUATION).lower().split()
    if not words:
        raise InputDataError(f"{path} is empty", fix=FIX)
    return words
