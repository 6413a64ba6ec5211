"""A language model of seven words, and frames between two of them."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from servemark.models.deepspeech import LABELS

ALPHABET = (*LABELS, "")

THE_CAT = """\\data\\
ngram 1=7
ngram 2=5

\\1-grams:
-2.0\t<unk>
0.0\t<s>\t-0.3
-1.0\t</s>
-1.0\tthe\t-0.3
-1.0\tcat\t-0.3
-3.0\tcap\t-0.3
-3.0\ta\t-0.3

\\2-grams:
-0.3\t<s> the
-0.3\tthe cat
-3.0\tthe cap
-0.3\tcat </s>
-0.3\tcap </s>

\\end\\
"""


def probabilities(*frames: Mapping[str, float]) -> npt.NDArray[np.float32]:
    """Log-probabilities of DeepSpeech's labels: frames of likely letters, '' for the blank."""
    likely = np.full((len(frames), len(ALPHABET)), 1e-9)
    for row, frame in zip(likely, frames, strict=True):
        for letter, probability in frame.items():
            row[ALPHABET.index(letter)] = probability
    found: npt.NDArray[np.float32] = np.log(likely).astype(np.float32)
    return found


def heard() -> npt.NDArray[np.float32]:
    """ "the ca" for sure, and then p of 0.6 and t of 0.4."""
    return probabilities(*({letter: 1.0} for letter in "the ca"), {"p": 0.6, "t": 0.4})
