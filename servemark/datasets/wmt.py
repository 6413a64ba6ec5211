"""WMT's news translation task: newstest sentences as the ids of subwords, from the layouts of two preparations.

`wmt16_de_en/` is what the script wmt16_en_de.sh of tensorflow/nmt (Luong, Brevdo & Zhao 2017) writes, `stanford/` the
whole words of Stanford's NMT group. Subwords are byte-pair encoding in the form of subword-nmt: Sennrich, Haddow and
Birch 2016, "Neural Machine Translation of Rare Words with Subword Units" (ACL).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from servemark.datasets import COPY, Origin, _text
from servemark.errors import InputDataError

KEY = "wmt"
ORIGIN = Origin("nlp.stanford.edu/projects/nmt; statmt.org/wmt16", None, "research, cite the overview", terms_from=COPY)
SPECIAL = ("<unk>", "<s>", "</s>")
UNKNOWN = 0
SETS = ("newstest2014", "newstest2015", "newstest2013")
"""The first of these that is there makes requests."""
CODES = "bpe.32000"
END_OF_WORD, CONTINUED = "</w>", "@@"
LAYOUT = (
    f"wmt16_de_en/<set>.tok.{CODES}.<language>, or <set>.tok.<language> beside the merges {CODES}, with "
    f"vocab.{CODES}[.<language>]; or stanford/<set>.<language> with vocab.50K.<language>; sets are {', '.join(SETS)}; "
    f"vocabularies hold one entry a line and begin with {', '.join(SPECIAL)}"
)


@dataclass(frozen=True)
class Translations:
    """Sentences as ids, their translations as tokens and as ids, and the target language's words by id."""

    requests: list[list[int]]
    references: list[list[str]]
    encoded: list[list[int]]
    words: Mapping[int, str]


Merges = Mapping[tuple[str, str], int]
"""Pairs of symbols by rank; the pair of the lowest rank is merged first."""


def read(folder: Path, language: str, size: int, sets: Sequence[str] = SETS) -> Iterator[list[int]]:
    """Read the sentences of a language (`de`, `en`) as ids below `size`; `folder` is `wmt/` or one of its two layouts.

    They are those of the first of the sets that is there. Sentences that are not split into subwords are, with the
    merges beside them. Raises InputDataError with file and line.
    """
    sentences, ids = _located(folder, language, sets)
    return (_text.encode(sentence, ids, unknown=UNKNOWN, limit=size) for sentence in sentences)


def translated(folder: Path, source: str, target: str, size: int, name: str) -> Translations:
    """Read a set's sentences with their translations. Raises InputDataError, also where one is missing."""
    requests = list(read(folder, source, size, (name,)))
    sentences, ids = _located(folder, target, (name,))
    references = [list(sentence) for sentence in sentences]
    if len(requests) != len(references):
        raise InputDataError(
            f"{folder} has {len(requests):,} sentences in {source!r} and {len(references):,} in {target!r}",
            fix=f"lay out {LAYOUT}",
        )
    encoded = [_text.encode(sentence, ids, unknown=UNKNOWN, limit=size) for sentence in references]
    return Translations(requests, references, encoded, {number: word for word, number in ids.items()})


def joined(tokens: Sequence[str]) -> str:
    """Whole words of subwords, with spaces between."""
    return " ".join(tokens).replace(f"{CONTINUED} ", "")


def _located(folder: Path, language: str, sets: Sequence[str]) -> tuple[Iterator[list[str]], Mapping[str, int]]:
    """The tokens of each sentence, and the vocabulary."""
    places = [place for place in (folder / "wmt16_de_en", folder / "stanford", folder) if place.is_dir()]
    for place in places:
        for name in sets:
            split, words = place / f"{name}.tok.{CODES}.{language}", place / f"{name}.tok.{language}"
            whole, vocabulary = place / f"{name}.{language}", f"vocab.{CODES}"
            if split.exists():
                sentences = _text.tokens(split, layout=LAYOUT)
            elif words.exists():
                merges = read_merges(place / CODES)
                sentences = (segment(sentence, merges) for sentence in _text.tokens(words, layout=LAYOUT))
            elif whole.exists():
                sentences, vocabulary = _text.tokens(whole, layout=LAYOUT), "vocab.50K"
            else:
                continue
            own, shared = place / f"{vocabulary}.{language}", place / vocabulary
            path = shared if shared.exists() and not own.exists() else own
            return sentences, _text.vocabulary(path, SPECIAL, layout=LAYOUT, header=True)
    raise InputDataError(f"{folder} holds no {' or '.join(sets)} in {language!r}", fix=f"lay out {LAYOUT}")


def read_merges(path: Path) -> Merges:
    """Read subword-nmt's codes: a line `#version: 0.2`, then a pair of symbols a line, the most frequent first.

    Raises InputDataError naming file and line.
    """
    fix = "expected the codes of subword-nmt: `#version: 0.2`, then two symbols a line"
    lines = _text.lines(path, f"lay out {LAYOUT}")
    place, version = next(lines)
    if version != "#version: 0.2":
        raise InputDataError(f"{place}: {version[:80]!r} is not a known version", fix=fix)
    merges: dict[tuple[str, str], int] = {}
    for place, line in lines:
        pair = line.split()
        if len(pair) != 2:
            raise InputDataError(f"{place}: {len(pair)} symbols in {line[:80]!r}", fix=fix)
        merges.setdefault((pair[0], pair[1]), len(merges))
    return merges


def segment(sentence: Sequence[str], merges: Merges) -> list[str]:
    """Split words into subwords; all but the last of a word end in `@@`."""
    return [part for word in sentence for part in _segment_word(word, merges)]


def _segment_word(word: str, merges: Merges) -> list[str]:
    symbols = [*word[:-1], word[-1] + END_OF_WORD]
    while len(symbols) > 1:
        best = min(pairwise(symbols), key=lambda pair: merges.get(pair, len(merges)))
        if best not in merges:
            break
        symbols = _merge(symbols, best)
    return [*(symbol + CONTINUED for symbol in symbols[:-1]), symbols[-1].removesuffix(END_OF_WORD)]


def _merge(symbols: Sequence[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    i = 0
    while i < len(symbols):
        width = 2 if tuple(symbols[i : i + 2]) == pair else 1
        merged.append("".join(symbols[i : i + width]))
        i += width
    return merged
