"""Text from log-probabilities, greedily and by a beam with a language model, against sums made by hand."""

import hashlib
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from servemark.errors import InputDataError, OptionError
from servemark.quality import ctc
from servemark.quality.ctc import LanguageModel, best_path, decoder
from tests.support.language_model import ALPHABET, THE_CAT, heard, probabilities


def beam(file: Path, **weights: float) -> LanguageModel:
    usual = {"alpha": 0.5, "beta": 1.5, "beam_width": 100}
    return LanguageModel(file, **usual | weights)  # type: ignore[arg-type]


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "lm.arpa"
    path.write_text(THE_CAT)
    return path


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        (["a", "a", "b"], "ab"),
        (["a", "", "a", "", ""], "aa"),
        (["", "i", "'", "m", " ", " ", "x"], "i'm x"),
        ([""], ""),
        ([], ""),
    ],
)
def test_the_best_path_merges_repeats_and_drops_blanks(frames: Sequence[str], text: str) -> None:
    found = probabilities(*({letter: 1.0} for letter in frames))
    assert best_path(ALPHABET, found) == decoder(ALPHABET, None)(found) == text


def test_the_language_model_changes_the_word(arpa: Path) -> None:
    """ "the cap" is heard as 0.6, "the cat" as 0.4; the model says log10 -3.6 and -0.9, both two words.

    So the cat wins from alpha * ln(10) * 2.7 = ln(1.5) on: alpha 0.0652.
    """
    frames = heard()
    assert best_path(ALPHABET, frames) == "the cap"
    limit = math.log(1.5) / (math.log(10) * 2.7)
    assert 0.0652 < limit < 0.0653
    for alpha, text in ((0.0, "the cap"), (limit - 1e-3, "the cap"), (limit + 1e-3, "the cat"), (0.5, "the cat")):
        assert decoder(ALPHABET, beam(arpa, alpha=alpha))(frames) == text


def test_beta_is_worth_a_word(arpa: Path) -> None:
    """Of "the cat" the log10 is -0.9, two words. "thecat" is unknown: -0.3 of <s>, -2, -1 of </s>, and 10 less."""
    frames = probabilities(*({letter: 1.0} for letter in "the"), {" ": 0.01, "": 0.99}, *({c: 1.0} for c in "cat"))
    limit = math.log(99) - 0.01 * math.log(10) * (13.3 - 0.9)
    for beta, text in ((limit - 0.1, "thecat"), (limit + 0.1, "the cat")):
        assert decoder(ALPHABET, beam(arpa, alpha=0.01, beta=beta))(frames) == text


def test_the_beam_sums_over_paths(arpa: Path) -> None:
    """Two frames of a 0.4 and blank 0.6: the best path is empty, 0.36; "a" has three paths, 0.64 (Graves 2006)."""
    frames = probabilities({"a": 0.4, "": 0.6}, {"a": 0.4, "": 0.6})
    assert best_path(ALPHABET, frames) == ""
    assert decoder(ALPHABET, beam(arpa, alpha=0, beta=0))(frames) == "a"


def test_a_beam_of_one_text_is_narrower(arpa: Path) -> None:
    """A word is weighed where it ends: one text alone is kept before that, by what was heard."""
    assert decoder(ALPHABET, beam(arpa))(heard()) == "the cat"
    assert decoder(ALPHABET, beam(arpa, beam_width=1))(heard()) == "the cap"


def test_a_model_in_capitals_is_asked_in_capitals(tmp_path: Path) -> None:
    path = tmp_path / "capitals.arpa"
    path.write_text(THE_CAT.replace("the", "THE").replace("cat", "CAT").replace("cap", "CAP").replace("\ta\t", "\tA\t"))
    assert decoder(ALPHABET, beam(path))(heard()) == "THE CAT"


def test_a_word_without_a_back_off_weight_is_known(tmp_path: Path) -> None:
    path = tmp_path / "lm.arpa"
    path.write_text(THE_CAT.replace("cat\t-0.3", "cat"))
    assert decoder(ALPHABET, beam(path))(heard()) == "the cat"


@pytest.mark.parametrize("content", ["", "hello\n", THE_CAT[:80], THE_CAT.replace("ngram 1=7", "ngram 1=9")])
def test_a_damaged_model_names_the_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "lm.arpa"
    path.write_text(content)
    with pytest.raises(InputDataError, match=r"lm\.arpa cannot be read") as caught:
        decoder(ALPHABET, beam(path))
    assert "build_binary" in str(caught.value)


@pytest.mark.parametrize("package", ["kenlm", "pyctcdecode.decoder"])
def test_a_missing_package_is_told_with_its_command(arpa: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(OptionError, match="--language-model needs") as caught:
        decoder(ALPHABET, beam(arpa))
    assert caught.value.fix == ctc.INSTALL


def test_the_digest_is_of_the_file(arpa: Path) -> None:
    config = beam(arpa).to_config()
    assert config["sha256"] == hashlib.sha256(arpa.read_bytes()).hexdigest()
    assert (config["alpha"], config["beta"], config["beam_width"]) == (0.5, 1.5, 100)
