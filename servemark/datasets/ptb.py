"""Penn Treebank as prepared by Mikolov et al. 2010: `ptb.{train,valid,test}.txt`, one sentence a line.

The vocabulary is that of the training text: every word and the end of the sentence, from the most to the least
frequent, equals in alphabetical order. The official text has 10,000 with the `<unk>` that stands for all other words.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import CATALOGUE, Origin, _text
from servemark.errors import InputDataError

KEY = "ptb"
ORIGIN = Origin(
    "fit.vutbr.cz/~imikolov/rnnlm (simple-examples.tgz)",
    35,
    "LDC's licence (LDC99T42), research",
    size_from=CATALOGUE,
    terms_from=CATALOGUE,
)
VOCABULARY = 10_000
END = "<eos>"
FIX = f"put the official ptb.train.txt and ptb.test.txt into DATA_ROOT/{KEY}/"


def read(folder: Path, *, length: int) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]]:
    """Cut the test text into consecutive windows: ids [length] and the ids that follow each of them [length].

    Raises InputDataError with file and line.
    """
    ids = build_vocabulary(folder / "ptb.train.txt")
    path = folder / "ptb.test.txt"
    tokens = []
    for place, word in words(path):
        if word not in ids:
            raise InputDataError(f"{place}: {word!r} is not in the training text", fix=FIX)
        tokens.append(ids[word])
    yield from _text.windows(tokens, length, path, FIX)


def build_vocabulary(path: Path) -> dict[str, int]:
    """Number the words of a text by frequency. Raises InputDataError where there are more than VOCABULARY."""
    counts = Counter(word for _, word in words(path))
    if len(counts) > VOCABULARY:
        raise InputDataError(f"{path} has {len(counts):,} different words, the official {VOCABULARY:,}", fix=FIX)
    return {word: index for index, word in enumerate(sorted(counts, key=lambda word: (-counts[word], word)))}


def words(path: Path) -> Iterator[tuple[str, str]]:
    """Yield every word with the place it stands at, an END after each line. Raises InputDataError."""
    for place, line in _text.lines(path, FIX):
        if not line.strip():
            raise InputDataError(f"{place} is blank", fix=FIX)
        yield from ((place, word) for word in (*line.split(), END))
