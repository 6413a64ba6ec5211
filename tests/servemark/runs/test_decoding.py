"""A language model decodes what is scored: through a real connection, in each command that scores."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servemark.datasets.librispeech import KEY
from servemark.results import directory
from servemark.runs import mlperf
from servemark.workload import get
from tests.golden.server import GoldenServer
from tests.servemark.datasets.test_librispeech import chapter
from tests.support.command_line import Servemark
from tests.support.digits import Scoring
from tests.support.documents import validated
from tests.support.language_model import THE_CAT, heard
from tests.support.locust_run import server_of, the_result

NAME = "deepspeech_ctc"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two utterances, "the cat" each, a server's log-probabilities of "the cap", and a model that knows better."""
    root = tmp_path_factory.mktemp("data")
    chapter(root / KEY).write_text("1089-134686-0000 THE CAT\n1089-134686-0001 THE CAT\n")
    workload = get(NAME)
    assert workload.labelled is not None
    spoken = workload.labelled(root / KEY)
    samples = [spoken.example(index).requests[0] for index in range(spoken.size)]
    answers = np.stack([np.pad(heard(), ((0, 3), (0, 0)))] * 2)  # with padding
    inputs = {tensor.name: np.stack([sample[tensor.name] for sample in samples]) for tensor in workload.inputs}
    np.savez(
        root / "answers.npz",
        **{f"input:{name}": array for name, array in inputs.items()},
        **{"output:log_probs": answers},
    )
    (root / "lm.arpa").write_text(THE_CAT)
    return root


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[GoldenServer]:
    with server_of(get(NAME), answers=str(data / "answers.npz")) as found:
        yield found


@pytest.fixture
def scoring(scoring: Scoring) -> Scoring:
    return replace(scoring, name=NAME)


def error_rate(result: Any) -> Any:
    score = result["quality"] if result["kind"] == "quality" else result["details"]["quality"]
    return score.get("score", score)["figures"][0]["value"]


COMMANDS = {
    "quality": (),
    "run": ("--quality", "--request-rate", "50", "--duration", "1", "--warmup", "0.3"),
    "mlperf": ("--quality", "--scenario", "SingleStream", "--min-duration", "0.3", "--min-queries", "5"),
}


def test_greedy_decoding_hears_the_wrong_word(scoring: Scoring, tmp_path: Path) -> None:
    scoring()
    result = validated(the_result(tmp_path))
    assert error_rate(result) == 0.5
    assert "language_model" not in result["resolved"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_language_model_corrects_it(
    scoring: Scoring, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(mlperf, "PROBE_S", 0.1)
    weights = ("--language-model", str(data / "lm.arpa"), "--beam-width", "50")
    done = scoring(*COMMANDS[command], *weights, command=command)
    result = validated(the_result(tmp_path))
    assert error_rate(result) == 0
    said = result["resolved"]["language_model"]
    assert said == {**said, "file": str(data / "lm.arpa"), "alpha": 0.5, "beta": 1.5, "beam_width": 50}
    if command == "quality":
        assert f"sha256 {said['sha256'][:12]}: alpha 0.5, beta 1.5, 50 beams" in done.out


def test_weights_of_the_user_s_are_taken(scoring: Scoring, data: Path, tmp_path: Path) -> None:
    """From alpha 0.0652 on the language model is heard (tests/servemark/quality/test_ctc.py)."""
    scoring("--language-model", str(data / "lm.arpa"), "--lm-alpha", "0.06")
    assert error_rate(the_result(tmp_path)) == 0.5


def test_what_was_decoded_otherwise_is_not_continued(scoring: Scoring, data: Path, tmp_path: Path) -> None:
    scoring()
    folder = scoring.cut_short()
    scoring("--language-model", str(data / "lm.arpa"))
    [other] = set(tmp_path.glob("*-quality*")) - {folder}
    assert error_rate(directory.read(other)) == directory.read(other)["quality"]["data"]["continued"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["quality", "deepspeech", "--language-model", "lm.arpa"], "deepspeech answers no log-probabilities"),
        (["run", NAME, "--language-model", "lm.arpa"], "add --quality"),
        (["compare", NAME, "--engines", "a,b", "--language-model", "lm.arpa"], "add --quality"),
        (["mlperf", NAME, "--scenario", "Offline", "--language-model", "lm.arpa"], "add --quality"),
        (["quality", NAME, "--language-model", "none.arpa"], "there is no language model none.arpa"),
        (["quality", NAME, "--lm-beta", "2"], "--lm-beta has no language model"),
        (["quality", NAME, "--language-model", "lm.arpa", "--lm-alpha", "x"], "--lm-alpha"),
        (["quality", NAME, "--language-model", "lm.arpa", "--beam-width", "0"], "--beam-width"),
    ],
)
def test_what_cannot_be_decoded_says_why(
    data: Path, servemark: Servemark, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(data)
    done = servemark(*arguments, "--data-root", str(data))
    assert done.code == 3
    assert said in done.err
