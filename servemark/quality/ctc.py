"""Text from log-probabilities of connectionist temporal classification: greedily, or by a beam with a language model.

Graves et al. 2006, "Connectionist Temporal Classification" (ICML); the beam search is pyctcdecode's, the language model
KenLM's (Heafield 2011).
"""

import codecs
import contextlib
import functools
import hashlib
import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.errors import InputDataError, OptionError, parsing
from servemark.machine.scratch import scratch_folder
from servemark.results.schema.run import LanguageModelConfig

LogProbs = npt.NDArray[np.generic]
"""Frames x labels."""
INSTALL = "pip install --no-deps pyctcdecode==0.5.0 pygtrie ufal-kenlm"
"""pyctcdecode's metadata asks for numpy < 2, and its code works with 2."""
_ARPA = b"\\data\\"


@dataclass(frozen=True)
class LanguageModel:
    """A KenLM file and its weights in the beam search, named as Mozilla and pyctcdecode do."""

    file: Path
    alpha: float = 0.5
    """Weight of the language model's log-probability."""
    beta: float = 1.5
    """Added for each word."""
    beam_width: int = 100

    def to_config(self) -> LanguageModelConfig:
        """Return the language model's options for result.json."""
        return {
            "file": str(self.file),
            "sha256": _sha256(self.file),
            "alpha": self.alpha,
            "beta": self.beta,
            "beam_width": self.beam_width,
        }


def decoder(alphabet: tuple[str, ...], language_model: LanguageModel | None) -> Callable[[LogProbs], str]:
    """Return a decoder of log-probabilities; `alphabet` has '' for the blank. Raises OptionError, InputDataError."""
    if language_model is None:
        return functools.partial(best_path, alphabet)
    return functools.partial(_beam(alphabet, language_model).decode, beam_width=language_model.beam_width)


def best_path(alphabet: tuple[str, ...], log_probs: LogProbs) -> str:
    """Take the likeliest label of each frame, merge repeats and drop blanks (section 3.2)."""
    return "".join(alphabet[label] for label, _ in itertools.groupby(log_probs.argmax(axis=1).tolist()))


@functools.cache
def _beam(alphabet: tuple[str, ...], language_model: LanguageModel) -> Any:
    """Prepare the beam search. Raises OptionError, InputDataError."""
    try:
        import kenlm
        from pyctcdecode.alphabet import Alphabet
        from pyctcdecode.decoder import BeamSearchDecoderCTC
        from pyctcdecode.language_model import LanguageModel as Scorer
    except ImportError as error:
        raise OptionError(f"--language-model needs {error.name}, which is not installed", fix=INSTALL) from error
    file, options = language_model.file, kenlm.Config()
    options.show_progress, options.arpa_complain = False, kenlm.ARPALoadComplain.NONE
    fix = "name an unpacked .arpa file, or what KenLM's build_binary made of one"
    with parsing(file, InputDataError, fix=fix), _without_mark(file) as plain:
        model = kenlm.Model(str(plain), options)
        words = _words(plain)
    # LibriSpeech's own language models are in capitals, which the letters in their vocabulary show.
    letters = max(alphabet, tuple(map(str.upper, alphabet)), key=lambda each: sum(letter in model for letter in each))
    scorer = Scorer(model, words, alpha=language_model.alpha, beta=language_model.beta)
    return BeamSearchDecoderCTC(Alphabet.build_alphabet(list(letters)), scorer)


@contextlib.contextmanager
def _without_mark(file: Path) -> Iterator[Path]:
    """Yield the file, or a copy without a byte order mark, which KenLM refuses. Raises OSError, NotTextError."""
    with files.opened(file) as content:
        start = content.read(len(codecs.BOM_UTF8))
        files.require_utf8(start)
        if start != codecs.BOM_UTF8:
            yield file
            return
        with scratch_folder("language_model") as folder:
            plain = folder / file.name
            with plain.open("wb") as copy:
                shutil.copyfileobj(content, copy)
            yield plain


def _words(file: Path) -> set[str] | None:
    """Return the words of an .arpa file, or None for a binary file, which does not list its words.

    pyctcdecode would leave out words without a back-off weight, which is optional.
    """
    with file.open("rb") as content:
        if not content.read(64).lstrip().startswith(_ARPA):
            return None
    with file.open(encoding="utf-8", errors="replace") as lines:
        listed = itertools.dropwhile(lambda line: not line.startswith("\\1-grams:"), lines)
        next(listed, None)
        entries = (line.split() for line in itertools.takewhile(lambda line: not line.startswith("\\"), listed))
        return {entry[1] for entry in entries if len(entry) > 1}


@functools.cache
def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
