"""The searched language model: its cell by a plain one, its state from window to window, the Penn Treebank."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from servemark.datasets import ptb
from servemark.errors import InputDataError
from servemark.workload import get
from tests.support.workload_data import answer, batch_of, read_requests


def test_enas_scores_tokens_one_by_one_as_in_a_window() -> None:
    """A step at a time in float64, from the arc as the authors' script writes it."""
    arc = [0, 0, 0, 1, 1, 2, 1, 2, 0, 2, 0, 5, 1, 1, 0, 6, 1, 8, 1, 8, 1, 8, 1]
    functions = {0: torch.tanh, 1: torch.relu}
    workload = get("enas_tiny")
    model = workload.build().double()
    ids, targets, state = batch_of(workload, 4)
    logprobs, last = answer(model, ids, targets, state.double())
    weight = {name: tensor.double() for name, tensor in model.state_dict().items()}

    def highway(carried: torch.Tensor, gates: torch.Tensor, function: Callable[..., torch.Tensor]) -> torch.Tensor:
        half = gates.shape[1] // 2
        share = 1 / (1 + torch.exp(-gates[:, half:]))
        return (1 - share) * carried + share * function(gates[:, :half])

    hidden = state.double()
    for t in range(ids.shape[1]):
        token = weight["embedding.weight"][ids[:, t].long()]
        nodes = [highway(hidden, torch.cat([token, hidden], 1) @ weight["cell.first.weight"].T, functions[arc[0]])]
        for node, (source, function) in enumerate(zip(arc[1::2], arc[2::2], strict=True)):
            gates = nodes[source] @ weight[f"cell.nodes.{node}.weight"].T
            nodes.append(highway(nodes[source], gates, functions[function]))
        loose = set(range(len(nodes))) - set(arc[1::2])
        hidden = sum((nodes[n] for n in loose), torch.zeros_like(hidden)) / len(loose)
        logits = hidden @ weight["embedding.weight"].T
        expected = logits - logits.exp().sum(1, keepdim=True).log()
        torch.testing.assert_close(logprobs[:, t], expected.gather(1, targets[:, t : t + 1].long()).squeeze(1))
    torch.testing.assert_close(last, hidden)


def test_enas_windows_follow_each_other_through_the_state() -> None:
    workload = get("enas_tiny")
    model, (ids, targets, state) = workload.build(), batch_of(workload, 2)
    logprobs, last = answer(model, ids, targets, state)
    half = ids.shape[1] // 2
    other = ids.flip(0)[:, :half]
    first, middle = answer(model, ids[:, :half], targets[:, :half], state)
    second, end = answer(model, ids[:, half:], targets[:, half:], middle)
    torch.testing.assert_close(torch.cat([first, second], 1), logprobs)
    torch.testing.assert_close(end, last)
    forgotten, _ = answer(model, ids[:, half:], targets[:, half:], answer(model, other, other, state)[1])
    assert (forgotten - second).abs().max() > 1e-2


def test_enas_text_ends_its_sentences_and_keeps_state() -> None:
    workload, rng = get("enas"), np.random.default_rng(0)
    stream = workload.samples(rng)
    samples = [next(stream) for _ in range(2000)]
    tokens = np.concatenate([sample["ids"] for sample in samples])
    assert (tokens == 0).mean() == pytest.approx(1 / 22, abs=0.006)
    assert all((sample["ids"][1:] == sample["targets"][:-1]).all() for sample in samples)
    assert np.mean([not sample["state"].any() for sample in samples]) == pytest.approx(1 / 20, abs=0.02)


def write_ptb(folder: Path, train: str, test: str) -> Path:
    (folder / "ptb.train.txt").write_text(train)
    (folder / "ptb.test.txt").write_text(test)
    return folder


def test_ptb_vocabulary_goes_by_frequency_then_alphabet(tmp_path: Path) -> None:
    write_ptb(tmp_path, " the cat <unk> \n the dog \n", " cat \n")
    ids = ptb.build_vocabulary(tmp_path / "ptb.train.txt")
    assert ids == {"<eos>": 0, "the": 1, "<unk>": 2, "cat": 3, "dog": 4}


def test_ptb_windows_are_consecutive_and_targets_come_next(tmp_path: Path) -> None:
    line = " ".join(f"w{i}" for i in range(40))
    found = read_requests("enas", write_ptb(tmp_path, f" {line} \n" * 2, f" {line} \n" * 2))
    text = ptb.build_vocabulary(tmp_path / "ptb.train.txt")
    expected = [text[word] for word in (*line.split(), "<eos>")] * 2
    assert len(found) == 2
    assert np.concatenate([request["ids"] for request in found]).tolist() == expected[:70]
    assert np.concatenate([request["targets"] for request in found]).tolist() == expected[1:71]


@pytest.mark.parametrize(
    ("train", "test", "reason"),
    [
        ("a b\n", "a b\nb c\n", r"ptb.test.txt:2: 'c' is not in the training text"),
        ("a b\n\nc\n", "a\n", r"ptb.train.txt:2 is blank"),
        ("", "a\n", r"ptb.train.txt is empty"),
        ("a b\n", "a b\n", r"ptb.test.txt has 3 tokens, one window needs 36"),
        (" ".join(map(str, range(10_000))), "1\n", r"ptb.train.txt has 10,001 different words"),
    ],
)
def test_odd_text_names_file_and_line(tmp_path: Path, train: str, test: str, reason: str) -> None:
    with pytest.raises(InputDataError, match=reason):
        read_requests("enas", write_ptb(tmp_path, train, test))


def test_missing_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match=r"ptb.train.txt is not there"):
        read_requests("enas", tmp_path)
