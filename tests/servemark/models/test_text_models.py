"""Models of words in the ones that came with later sources: their recurrence, attention and windows by plain code."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from servemark.models import aoa_reader, din, rnn_lm, sentiment
from servemark.workload import get
from tests.support.workload_data import answer, batch_of


def test_rnn_lm_goes_on_where_the_window_before_ended() -> None:
    workload = get("rnn_lm_tiny")
    model, (ids, targets, h, c) = workload.build(), batch_of(workload, 4)
    whole = answer(model, ids, targets, h, c)
    half = ids.shape[1] // 2
    first, *state = answer(model, ids[:, :half], targets[:, :half], h, c)
    second, *last = answer(model, ids[:, half:], targets[:, half:], *state)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(tuple(last), tuple(whole[1:]), atol=1e-5, rtol=0)
    assert (answer(model, ids, targets, torch.zeros_like(h), torch.zeros_like(c))[0] - whole[0]).abs().max() > 0.1


def test_rnn_lm_s_requests_have_states_like_the_model_s() -> None:
    workload = get("rnn_lm_tiny")
    _, h, c = answer(workload.build(), *batch_of(workload, 64))
    assert [h.std().item(), c.std().item()] == pytest.approx(rnn_lm.STATE_STD, rel=0.4)


@pytest.mark.parametrize(
    ("module", "name"), [(rnn_lm, "rnn_lm"), (aoa_reader, "aoa_reader"), (aoa_reader, "aoa_reader_tiny")]
)
def test_parameters_and_flops_are_those_of_the_sizes(module: Any, name: str) -> None:
    """FLOPs are twice the weights at each word, and the products of attention."""
    workload = get(name)
    sizes = module.TINY if name.endswith("_tiny") else module.Sizes()
    with torch.device("meta"):
        model: nn.Module = module.network(sizes)
    assert sum(p.numel() for p in model.parameters()) == workload.parameters
    matrices = {key: p.numel() for key, p in model.named_parameters() if p.ndim == 2 and "embedding" not in key}
    if name == "rnn_lm":
        assert workload.flops == 2 * sum(matrices.values()) * sizes.length
    else:
        encoder = sum(size for key, size in matrices.items() if key.startswith("story"))
        means = round(433 / 1024 * sizes.story), sizes.question // 2
        lengths = {"flops": (sizes.story, sizes.question), "flops_without_padding": means}
        for figure, (story, question) in lengths.items():
            looked = 2 * sizes.hidden * story * question + (question + sizes.candidates) * story
            assert getattr(workload, figure) == 2 * encoder * (story + question) + 2 * looked, figure


@pytest.mark.parametrize("name", ["sentiment", "sentiment_tiny", "din", "din_tiny"])
def test_flops_without_padding_are_those_of_a_network_as_long_as_the_mean_request(name: str) -> None:
    workload = get(name)
    module: Any = sentiment if name.startswith("sentiment") else din
    sizes = module.TINY if name.endswith("_tiny") else module.Sizes()
    requests = [torch.zeros(1, 1, dtype=torch.int32, device="meta")]
    with torch.device("meta"), FlopCounterMode(display=False) as counter, torch.no_grad():
        if module is sentiment:
            mean = round(230 / 400 * sizes.length)
            words = torch.zeros(1, mean, dtype=torch.int32)
            module.network(replace(sizes, length=mean)).eval()(words, *requests)
        else:
            mean = int(min(8, sizes.history / 2))
            history = torch.zeros(1, mean, dtype=torch.int32)
            categories = torch.zeros(sizes.items, dtype=torch.int32)
            module.network(replace(sizes, history=mean), categories).eval()(*requests, history, *requests)
    assert counter.get_total_flops() == workload.flops_without_padding


def test_the_reader_answers_as_the_paper_s_formulas() -> None:
    workload = get("aoa_reader_tiny")
    model: Any = workload.build()
    batch = batch_of(workload, 4)
    scores, best = answer(model, *batch)
    for row, (doc, doc_len, query, query_len, candidates) in enumerate(zip(*batch, strict=True)):
        states = []
        for cells, ids, length in ((model.story, doc, doc_len), (model.question, query, query_len)):
            words = model.embedding(ids[: int(length)].long())
            both = []
            for cell, order in zip(cells, (1, -1), strict=True):
                state, seen = torch.zeros(1, cell.hidden_size), []
                for word in words if order == 1 else words.flip(0):
                    state = cell(word[None], state)
                    seen.append(state[0])
                both.append(torch.stack(seen[::order]))
            states.append(torch.cat(both, dim=1))
        match = aoa_reader.MATCH_GAIN * states[0] @ states[1].T
        attention = match.softmax(dim=0) @ match.softmax(dim=1).mean(dim=0)
        expected = [attention[doc[: len(attention)] == candidate].sum().item() for candidate in candidates]
        assert scores[row].tolist() == pytest.approx(expected, abs=1e-4)
        assert best[row].item() == max(range(len(expected)), key=expected.__getitem__)


def test_sentiment_looks_at_windows_within_the_review_only() -> None:
    workload = get("sentiment_tiny")
    model: Any = workload.build()
    words, length = batch_of(workload, 8)
    (probs,) = answer(model, words, length)
    beyond = torch.arange(words.shape[1]) >= length
    assert torch.equal(answer(model, words.masked_fill(beyond, 7), length)[0], probs)
    for row in range(8):
        review = model.embedding(words[row, : int(length[row])].long()).T
        maxima = []
        for size, convolution in zip(sentiment.WINDOWS, model.convolutions, strict=True):
            padded = nn.functional.pad(review, (size // 2, (size - 1) // 2))
            maxima.append(nn.functional.elu(convolution(padded[None])[0]).amax(dim=1))
        expected = model.output(torch.cat(maxima)).softmax(dim=0)
        torch.testing.assert_close(probs[row], expected.detach(), atol=1e-5, rtol=0)
