"""Autoregressive decoding: every decoder against a plain one that knows neither batches nor caches nor padding."""

import dataclasses
import functools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from servemark.models import image_caption, image_caption_im2txt, nmt, seq2seq, summarization, transformer
from servemark.models.blocks.sequences import Search, search
from servemark.workload import Workload, get
from tests.support.exporting import FROM_TORCH, Exports
from tests.support.plain_decoders import Tensor, beam_search, gnmt, plain_transformer, summarizer, tutorial
from tests.support.workload_data import answer, batch_of, firm_batch

DECODERS: dict[str, tuple[Any, Any, Any]] = {
    "summarization": (summarization, summarization.TINY, summarizer),
    "seq2seq": (seq2seq, seq2seq.TINY, tutorial),
    "nmt": (nmt, nmt.TINY, gnmt),
    "nmt-wide": (nmt, dataclasses.replace(nmt.TINY, beams=5), gnmt),
    "nmt_greedy": (nmt, dataclasses.replace(nmt.TINY, beams=1, length_penalty=0.0), gnmt),
    "transformer": (transformer, transformer.TINY, plain_transformer),
    "transformer-beam": (
        transformer,
        dataclasses.replace(transformer.TINY, beams=4, length_penalty=0.6),
        plain_transformer,
    ),
}
every_decoder = pytest.mark.parametrize("name", DECODERS)
WORKLOADS = ["summarization", "seq2seq", "nmt", "nmt_greedy", "transformer"]
every_workload = pytest.mark.parametrize("workload_name", WORKLOADS)


@every_decoder
def test_decodes_word_for_word_what_a_plain_decoder_does(name: str) -> None:
    module, sizes, reference = DECODERS[name]
    workload_name = f"{name.partition('-')[0].partition('_')[0]}_tiny"
    model = module.build(workload_name, sizes)
    src_ids, src_len = firm_batch(model, get(workload_name), 24, seed=5)
    ids, lengths, scores = answer(model, src_ids, src_len)
    beams, penalty = getattr(sizes, "beams", 1), getattr(sizes, "length_penalty", 0.0)
    rules = Search(ids.shape[1], module.START, module.END, beams, penalty)
    for row in range(16, 24):  # among these are answers that reach the longest length
        with torch.no_grad():
            words, score = beam_search(reference(model, src_ids[row].long(), int(src_len[row])), rules)
        assert ids[row].tolist() == words + [0] * (len(ids[row]) - len(words))
        assert lengths[row].item() == len(words)
        assert scores[row].item() == pytest.approx(score, abs=1e-4, rel=1e-4)


@functools.cache
def built(name: str) -> tuple[Workload, Any]:
    """A tiny workload and its model, which no test changes."""
    workload = get(f"{name}_tiny")
    return workload, workload.build()


CAPTIONS: dict[str, Any] = {"image_caption": image_caption, "image_caption_im2txt": image_caption_im2txt}


@pytest.mark.parametrize("size", ["TINY", pytest.param("FULL", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CAPTIONS)
def test_captions_word_for_word_as_a_plain_decoder(name: str, size: str) -> None:
    """Of im2txt the picture is the first input, and the start of the sentence the second."""
    sizes = getattr(CAPTIONS[name], size)
    workload = get(name if size == "FULL" else f"{name}_tiny")
    model: Any = workload.build()
    begin = [image_caption.START] if name == "image_caption_im2txt" else []

    @torch.no_grad()
    def next_word(picture: Tensor, words: list[int]) -> Tensor:
        state = model.cell(picture)
        for each in model.embedding(torch.tensor([*begin, *words], dtype=torch.long)):
            state = model.cell(each[None], state)
        return torch.log_softmax(model.output(state[0])[0], dim=0)

    (image,) = firm_batch(model, workload, 6, seed=5)
    ids, lengths = answer(model, image)
    rules = Search(sizes.steps, image_caption.START, image_caption.END, getattr(sizes, "beams", 1))
    for row in range(len(ids)):
        words, _ = beam_search(partial(next_word, model.encoder(image[row : row + 1])), rules)
        assert ids[row].tolist() == words + [0] * (ids.shape[1] - len(words))
        assert lengths[row].item() == len(words)


@pytest.mark.parametrize("longest", [False, True])
@pytest.mark.parametrize(
    "name", ["image_caption_im2txt_tiny", pytest.param("image_caption_im2txt", marks=pytest.mark.slow)]
)
def test_flops_of_captions_are_those_of_the_mean_and_of_the_longest(name: str, longest: bool) -> None:
    workload = get(name)
    sizes = image_caption_im2txt.TINY if name.endswith("_tiny") else image_caption_im2txt.FULL
    model: Any = workload.build()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        state = model.look(batch_of(workload, 1)[0])
        rows = tuple(tensor.repeat(sizes.beams, 1) for tensor in state)
        look = counter.get_total_flops()
        model.step(torch.tensor(0), torch.full((sizes.beams,), 5), rows)
    step = counter.get_total_flops() - look
    words = sizes.steps if longest else round(image_caption.CAPTION * sizes.steps)
    assert look + words * step == (workload.flops_longest if longest else workload.flops)


@pytest.mark.parametrize("name", ["image_caption_tiny", pytest.param("image_caption", marks=pytest.mark.slow)])
def test_a_caption_of_mean_length_needs_fewer_steps_than_are_computed(name: str) -> None:
    workload = get(name)
    sizes = image_caption.TINY if name.endswith("_tiny") else image_caption.FULL
    model: Any = workload.build()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        features = model.encoder(batch_of(workload, 1)[0])
        for _ in range(round(image_caption.CAPTION * sizes.steps)):
            state = model.cell(features)
            model.output(state[0])
    assert counter.get_total_flops() == workload.flops_without_padding


@pytest.mark.parametrize("name", [*WORKLOADS, *CAPTIONS])
def test_answers_vary_and_end_at_various_lengths(name: str) -> None:
    workload, model = built(name)
    found = zip(workload.outputs, answer(model, *batch_of(workload, 64)), strict=True)
    outputs = {tensor.name: array.numpy() for tensor, array in found}
    ids, lengths = outputs["ids"], outputs["lengths"][:, 0]
    assert len(set(lengths.tolist())) >= 4
    assert (lengths < ids.shape[1]).mean() > 0.3
    assert (lengths == 0).mean() < 0.1
    assert len({tuple(row) for row in ids.tolist()}) > 20
    assert len(np.unique(ids)) > 10


@every_workload
def test_padding_is_ignored(workload_name: str) -> None:
    workload, model = built(workload_name)
    src_ids, src_len = firm_batch(model, workload, 8)
    beyond = torch.arange(src_ids.shape[1]) >= src_len
    assert beyond.any()
    one, other = (answer(model, ids, src_len) for ids in (src_ids, src_ids.masked_fill(beyond, 77)))
    assert torch.equal(one[0], other[0])
    torch.testing.assert_close(one[1:], other[1:], atol=1e-5, rtol=1e-5)


@every_workload
def test_an_empty_sentence_does_not_fail_its_batch(workload_name: str) -> None:
    workload, model = built(workload_name)
    src_ids, src_len = firm_batch(model, workload, 4)
    src_len[2], src_ids[2] = 0, 0
    together = answer(model, src_ids, src_len)
    for row in range(4):
        alone = answer(model, src_ids[row : row + 1], src_len[row : row + 1])
        assert torch.equal(alone[0][0], together[0][row])


@every_workload
def test_decoding_stops_with_the_longest_sentence_of_the_batch(
    workload_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload, model = built(workload_name)
    inputs = batch_of(workload, 16)
    steps: list[int] = []
    step = model.step

    def counted(memory: Any, position: Tensor, *others: Any) -> Any:
        steps.append(int(position))
        return step(memory, position, *others)

    monkeypatch.setattr(model, "step", counted)

    def count(*tensors: Tensor) -> int:
        steps.clear()
        answer(model, *tensors)
        assert steps == list(range(len(steps)))
        return len(steps)

    alone = [count(*(tensor[i : i + 1] for tensor in inputs)) for i in range(16)]
    assert len(set(alone)) > 2
    short = torch.tensor(alone) < max(alone)
    assert count(*(tensor[short] for tensor in inputs)) == max(n for n in alone if n < max(alone))


@pytest.mark.parametrize("engine", FROM_TORCH)
def test_exported_loop_has_no_end_but_its_condition(engine: str, exported: Exports) -> None:
    entry = exported("nmt_greedy_tiny", engine)
    assert exported.said["nmt_greedy_tiny", engine] == []
    if engine == "onnxruntime":
        graph = onnx.load(entry.version / "model.onnx").graph
        (loop,) = (node for node in graph.node if node.op_type == "Loop")
        assert loop.input[0] == ""  # no number of trips
        body = loop.attribute[0].g
        assert body.output[0].name in {output for node in body.node for output in node.output}  # computed, not constant
        assert not body.initializer
    else:
        program = torch.export.load(entry.version / "model.pt2")
        loops = [node for node in program.graph.nodes if node.target is torch.ops.higher_order.while_loop]
        assert len(loops) == 1


def test_search_ranks_by_length_and_keeps_what_has_ended() -> None:
    """Words 1 and 2 begin; 1 ends at once, 2 after two more words that cost nothing."""
    ends, table = 0, torch.full((4, 4), -50.0)
    table[3, 1], table[3, 2] = np.log(0.52), np.log(0.48)  # 3 is the start
    table[1, ends] = table[2, 2] = 0.0

    def step(position: Tensor, word: Tensor, state: Any) -> Any:
        logits = table[word].clone()
        logits[(word == 2) & (position >= 3), 2] = -50.0
        logits[(word == 2) & (position >= 3), ends] = 0.0
        return logits, state

    def decode(**changes: Any) -> Any:
        rules = Search(limit=6, start=3, end=ends, **changes)
        ids, lengths, score = search(step, (torch.zeros(1, 1),), rules)
        return ids[0, : int(lengths[0, 0])].tolist(), score[0, 0].item()

    assert decode() == ([1], pytest.approx(np.log(0.52), abs=1e-5))
    assert decode(beams=2) == ([1], pytest.approx(np.log(0.52), abs=1e-5))
    assert decode(beams=2, length_penalty=1.0) == ([2, 2, 2], pytest.approx(np.log(0.48) * 6 / 8, abs=1e-5))


NOMINAL = {
    "summarization": (31 / 55, 8.3 / 15),
    "seq2seq": (7 / 10, 6 / 10),
    "nmt": (27 / 50, 27 / 50),
    "transformer": (27 / 64, 27 / 64),
}
"""Shares of the longest source and answer that the mean request has."""


@pytest.mark.parametrize("figure", ["flops", "flops_without_padding", "flops_longest"])
@pytest.mark.parametrize("size", ["tiny", pytest.param("full", marks=pytest.mark.slow)])
@every_workload
def test_flops_are_those_of_the_mean_and_of_the_longest_answer(workload_name: str, size: str, figure: str) -> None:
    full = get(workload_name)
    model: Any
    workload, model = built(workload_name) if size == "tiny" else (full, full.build())
    module, _, _ = DECODERS[workload_name]
    sizes = module.Sizes() if size == "full" else module.TINY
    beams = 1 if workload_name in {"nmt_greedy", "transformer", "seq2seq"} else sizes.beams
    mean = NOMINAL[workload_name.partition("_")[0]]
    shares = {"flops": (1.0, mean[1]), "flops_without_padding": mean, "flops_longest": (1.0, 1.0)}[figure]
    source, target = (
        round(s * t.shape[0]) for s, t in zip(shares, (workload.inputs[0], workload.outputs[0]), strict=True)
    )

    def count(run: Callable[[], Any]) -> int:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            run()
        return int(counter.get_total_flops())

    ids, length = torch.full((1, source), 5), torch.full((1, 1), source)
    with torch.no_grad():
        memory, state = model.encode(ids, length)
    rows = tuple(tensor.repeat_interleave(beams, 0) for tensor in state)
    once = count(partial(model.step, memory, torch.tensor(0), torch.full((beams,), 5), rows))
    total = count(partial(model.encode, ids, length)) + target * once
    for cell in (*getattr(model, "bidirectional", ()), *(model.encoder if workload_name != "transformer" else ())):
        if isinstance(cell, nn.LSTMCell):  # one fused operator, not counted
            total += 2 * source * (cell.weight_ih.numel() + cell.weight_hh.numel())
        else:  # counted, with the input that marks the padding
            total -= 2 * source * cell.weight_ih.shape[0]
    if (workload_name, figure) == ("transformer", "flops_without_padding"):
        # the whole cache was counted at every step, not the words so far
        per_place = 2 * 2 * sizes.width * sizes.layers
        total += per_place * (target * (target + 1) // 2 - target * sizes.length)
    assert total == getattr(workload, figure)
