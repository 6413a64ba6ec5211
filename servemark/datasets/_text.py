"""Text files: lines with their places, sentences of tokens, and vocabularies of one word a line."""

import codecs
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.errors import InputDataError, reason


def lines(path: Path, fix: str) -> Iterator[tuple[str, str]]:
    """Yield each line of a UTF-8 file, without its end, after the place it stands at: `file:number`.

    Raises InputDataError naming a file that is not there, cannot be read or is empty, and the line that is no UTF-8.
    """
    number = 0
    try:
        with path.open("rb") as file:  # a text file would name the byte of its buffer rather than the line
            for number, line in enumerate(file, 1):
                if number == 1:
                    files.require_utf8(line)
                    line = line.removeprefix(codecs.BOM_UTF8)  # noqa: PLW2901
                yield f"{path}:{number}", line.decode("utf-8").rstrip("\r\n")
    except FileNotFoundError as error:
        raise InputDataError(f"{path} is not there", fix=fix) from error
    except files.NotTextError as error:
        raise InputDataError(f"{path}: {error}", fix=error.fix) from error
    except UnicodeDecodeError as error:
        raise InputDataError(f"{path}:{number}: no UTF-8: {error.reason}", fix=fix) from error
    except OSError as error:
        raise InputDataError(f"{path} cannot be read: {reason(error)}", fix=fix) from error
    if not number:
        raise InputDataError(f"{path} is empty", fix=fix)


def tokens(path: Path, *, layout: str) -> Iterator[list[str]]:
    """Read sentences of tokens with spaces in between. Raises InputDataError naming the line that is empty."""
    for place, line in lines(path, f"lay out {layout}"):
        sentence = line.split()
        if not sentence:
            raise InputDataError(f"{place}: no words", fix=f"remove the line; expected {layout}")
        yield sentence


def vocabulary(path: Path, special: Sequence[str], *, layout: str, header: bool) -> dict[str, int]:
    """Read a vocabulary: word -> id in order of the file, after the `special` words, which a `header` repeats.

    A count behind the word is left out. Raises InputDataError naming the line of a missing or repeated word.
    """
    ids = {} if header else {word: i for i, word in enumerate(special)}
    for number, (place, line) in enumerate(lines(path, f"lay out {layout}")):
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


def windows(
    tokens: Sequence[int], length: int, path: Path, fix: str
) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]]:
    """Cut a text into consecutive windows: ids [length] and the ids that follow each of them [length].

    Raises InputDataError naming the file of a text that is shorter.
    """
    if len(tokens) <= length:
        raise InputDataError(f"{path} has {len(tokens)} tokens, one window needs {length + 1}", fix=fix)
    text = np.array(tokens, np.int32)
    for start in range(0, len(text) - length, length):
        yield text[start : start + length], text[start + 1 : start + length + 1]
