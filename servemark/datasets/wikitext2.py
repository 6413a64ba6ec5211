"""WikiText-2: `wiki.{train,valid,test}.tokens`, words separated by spaces, as Merity et al. prepared it.

Merity et al. 2017, "Pointer Sentinel Mixture Models" (ICLR). The vocabulary is that of the training text and the end of
a line, which comes first here; words follow as they appear. The official text has 33,278, `<unk>` among them.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import CATALOGUE, Origin, _text
from servemark.errors import InputDataError

KEY = "wikitext-2"
ORIGIN = Origin("Merity et al., wikitext-2-v1.zip", 4.5, "CC BY-SA 4.0", size_from=CATALOGUE, terms_from=CATALOGUE)
VOCABULARY = 33_278
END_ID = 0
"""Of the end of a line."""
FIX = f"put the official wiki.train.tokens and wiki.test.tokens into DATA_ROOT/{KEY}/"


def read(folder: Path, *, length: int) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]]:
    """Cut the test text into consecutive windows: ids [length] and the ids that follow each of them [length].

    Raises InputDataError with file and line.
    """
    ids = build_vocabulary(folder / "wiki.train.tokens")
    path, tokens = folder / "wiki.test.tokens", []
    for place, line in _text.lines(path, FIX):
        for word in line.split():
            if word not in ids:
                raise InputDataError(f"{place}: {word!r} is not in the training text", fix=FIX)
            tokens.append(ids[word])
        tokens.append(END_ID)
    yield from _text.windows(tokens, length, path, FIX)


def build_vocabulary(path: Path) -> dict[str, int]:
    """Number the words of a text as they appear, from 1. Raises InputDataError where there are too many."""
    ids: dict[str, int] = {}
    for _, line in _text.lines(path, FIX):
        for word in line.split():
            ids.setdefault(word, len(ids) + END_ID + 1)
    if len(ids) >= VOCABULARY:
        raise InputDataError(f"{path} has {len(ids) + 1:,} different words, the official {VOCABULARY:,}", fix=FIX)
    return ids
