"""Text files of one sentence a line, and vocabularies of one word a line."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from servemark.errors import InputDataError


def lines(path: Path, *, layout: str) -> Iterator[str]:
    """Read the lines of a UTF-8 file, without their ends; `layout` says what should be there.

    Raises InputDataError naming the file, and the line that is no UTF-8.
    """
    number = 0
    try:
        with path.open("rb") as file:  # a text file would name the byte of its buffer rather than the line
            for number, line in enumerate(file, 1):  # noqa: B007 - the error names it
                yield line.decode("utf-8").rstrip("\r\n")
    except FileNotFoundError as error:
        raise InputDataError(f"{path} is not there", fix=f"lay out {layout}") from error
    except UnicodeDecodeError as error:
        raise InputDataError(f"{path}:{number}: no UTF-8: {error.reason}", fix=f"lay out {layout}") from error
    except OSError as error:
        raise InputDataError(f"{path} cannot be read: {error}", fix=f"lay out {layout}") from error


def tokens(path: Path, *, layout: str) -> Iterator[list[str]]:
    """Read sentences of tokens with spaces in between. Raises InputDataError naming the line that is empty."""
    number = 0
    for number, line in enumerate(lines(path, layout=layout), 1):
        sentence = line.split()
        if not sentence:
            raise InputDataError(f"{path}:{number}: no words", fix=f"remove the line; expected {layout}")
        yield sentence
    if not number:
        raise InputDataError(f"{path} is empty", fix=f"lay out {layout}")


def vocabulary(path: Path, special: Sequence[str], *, layout: str, header: bool) -> dict[str, int]:
    """Read a vocabulary: word -> id in order of the file, after the `special` words, which a `header` repeats.

    A count behind the word is left out. Raises InputDataError naming the line of a missing or repeated word.
    """
    ids = {} if header else {word: i for i, word in enumerate(special)}
    for number, line in enumerate(lines(path, layout=layout), 1):
        word = next(iter(line.split()), "")
        if header and number <= len(special) and word != special[number - 1]:
            raise InputDataError(f"{path}:{number}: {word!r} instead of {special[number - 1]!r}", fix=layout)
        if not word or word in ids:
            reason = f"{word!r} is there twice" if word else "no word"
            raise InputDataError(f"{path}:{number}: {reason}", fix=f"expected {layout}")
        ids[word] = len(ids)
    if len(ids) <= len(special):
        raise InputDataError(f"{path} holds no words", fix=f"expected {layout}")
    return ids


def encode(sentence: Sequence[str], ids: Mapping[str, int], *, unknown: int, limit: int) -> list[int]:
    """Look up words; those that are not among the first `limit` ids are `unknown`."""
    found = (ids.get(word, unknown) for word in sentence)
    return [i if i < limit else unknown for i in found]
