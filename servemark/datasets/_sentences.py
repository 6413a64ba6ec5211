"""Text files of one sentence a line, and vocabularies of one word a line."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from servemark.datasets import _text
from servemark.errors import InputDataError


def tokens(path: Path, *, layout: str) -> Iterator[list[str]]:
    """Read sentences of tokens with spaces in between. Raises InputDataError naming the line that is empty."""
    for place, line in _text.lines(path, f"lay out {layout}"):
        sentence = line.split()
        if not sentence:
            raise InputDataError(f"{place}: no words", fix=f"remove the line; expected {layout}")
        yield sentence


def vocabulary(path: Path, special: Sequence[str], *, layout: str, header: bool) -> dict[str, int]:
    """Read a vocabulary: word -> id in order of the file, after the `special` words, which a `header` repeats.

    A count behind the word is left out. Raises InputDataError naming the line of a missing or repeated word.
    """
    ids = {} if header else {word: i for i, word in enumerate(special)}
    for number, (place, line) in enumerate(_text.lines(path, f"lay out {layout}")):
        word = next(iter(line.split()), "")
        if header and number < len(special) and word != special[number]:
            raise InputDataError(f"{place}: {word!r} instead of {special[number]!r}", fix=layout)
        if not word or word in ids:
            reason = f"{word!r} is there twice" if word else "no word"
            raise InputDataError(f"{place}: {reason}", fix=f"expected {layout}")
        ids[word] = len(ids)
    if len(ids) <= len(special):
        raise InputDataError(f"{path} holds no words", fix=f"expected {layout}")
    return ids


def encode(sentence: Sequence[str], ids: Mapping[str, int], *, unknown: int, limit: int) -> list[int]:
    """Look up words; those that are not among the first `limit` ids are `unknown`."""
    found = (ids.get(word, unknown) for word in sentence)
    return [i if i < limit else unknown for i in found]
