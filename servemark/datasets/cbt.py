"""Children's Book Test, named entities, in the official layout: `CBTest/data/cbtest_NE_{train,test_2500ex}.txt`.

Hill et al. 2016, "The Goldilocks Principle" (ICLR). A question is 20 numbered lines of a story; line 21 is the sentence
with `XXXXX` in the place of a word, and after tabs the answer and ten candidates between `|`. A blank line ends it. The
vocabulary is that of the training file, words in lower case from the most to the least frequent, from 2; 0 is padding
and 1 stands for words that it does not know.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import CATALOGUE, Origin, _text
from servemark.errors import InputDataError

KEY = "cbt"
ORIGIN = Origin(
    "research.fb.com/downloads/babi (CBTest.tgz)", 121, "GNU FDL 1.3", size_from=CATALOGUE, terms_from=CATALOGUE
)
UNKNOWN, FIRST = 1, 2
CANDIDATES = 10
_DATA = Path("CBTest", "data")
TRAINING, TEST = "cbtest_NE_train.txt", "cbtest_NE_test_2500ex.txt"
FIX = f"unpack the official CBTest.tgz into DATA_ROOT/{KEY}/"
Ids = npt.NDArray[np.int32]


def read(folder: Path, vocabulary: int) -> Iterator[tuple[Ids, Ids, Ids]]:
    """Yield each test question: story, question and candidates. Raises InputDataError with file and line."""
    return (question[:3] for question in answered(folder, vocabulary))


def answered(folder: Path, vocabulary: int) -> Iterator[tuple[Ids, Ids, Ids, int]]:
    """The same with the place of the answer among the candidates. Raises InputDataError with file and line."""
    root = folder / _DATA if (folder / _DATA).is_dir() else folder
    lines = (line.partition(" ")[2] for _, line in _text.lines(root / TRAINING, FIX))
    counts = Counter(word for line in lines for word in line.replace("|", " ").lower().split())
    known = sorted(counts, key=lambda word: (-counts[word], word))[: vocabulary - FIRST]
    ids = {word: index for index, word in enumerate(known, FIRST)}

    def numbered(words: list[str]) -> Ids:
        return np.array([ids.get(word, UNKNOWN) for word in words], np.int32)

    story: list[str] = []
    for place, line in _text.lines(root / TEST, FIX):
        number, _, rest = line.partition(" ")
        if not line.strip():
            story = []
        elif not number.isdigit():
            raise InputDataError(f"{place}: {line[:80]!r} has no number", fix=FIX)
        elif "\t" not in rest:
            story += rest.lower().split()
        else:
            question, answer, *more = rest.split("\t")
            candidates = more[-1].lower().split("|") if more else []
            if len(candidates) != CANDIDATES or not story:
                raise InputDataError(f"{place}: {len(candidates)} candidates after {len(story)} words", fix=FIX)
            if answer.lower() not in candidates:
                raise InputDataError(f"{place}: the answer {answer[:80]!r} is not a candidate", fix=FIX)
            right = candidates.index(answer.lower())
            yield numbered(story), numbered(question.lower().split()), numbered(candidates), right
