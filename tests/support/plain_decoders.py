"""Decoders as a textbook has them, with the weights of ours: one sentence, no batch, no cache, no padding."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from servemark.models import nmt, seq2seq, summarization, transformer
from servemark.models.blocks.sequences import Search

Tensor = torch.Tensor
NextWord = Callable[[list[int]], Tensor]
"""The words so far -> log-probabilities [V] of the next one."""


@dataclass
class Hypothesis:
    words: list[int]
    log_p: float = 0.0
    ended: bool = False

    def rank(self, penalty: float) -> float:
        return float(self.log_p / ((5 + len(self.words)) / 6) ** penalty)


def beam_search(next_word: NextWord, rules: Search) -> tuple[list[int], float]:
    """Beam search as a textbook has it: lists of hypotheses, each word from scratch."""
    beams = [Hypothesis([])]
    for _ in range(rules.limit):
        if all(beam.ended for beam in beams):
            break
        candidates = [beam for beam in beams if beam.ended]
        for beam in beams:
            if not beam.ended:
                for word, log_p in enumerate(next_word(beam.words).tolist()):
                    words = beam.words if word == rules.end else [*beam.words, word]
                    candidates.append(Hypothesis(words, beam.log_p + log_p, word == rules.end))
        beams = sorted(candidates, key=lambda beam: beam.rank(rules.length_penalty), reverse=True)[: rules.beams]
    return beams[0].words, beams[0].rank(rules.length_penalty)


def packed(layer: nn.GRU | nn.LSTM, cells: Any, words: Tensor, length: int) -> tuple[Tensor, Any]:
    """Run PyTorch's own layer over one sentence without padding, with the weights of the cells."""
    for cell, suffix in zip(cells, ("", "_reverse"), strict=False):
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            layer.get_parameter(f"{name}_l0{suffix}").copy_(cell.get_parameter(name))
    outputs, state = layer(pack_padded_sequence(words[None, :length], torch.tensor([length]), batch_first=True))
    return outputs.data, state


def summarizer(model: Any, ids: Tensor, length: int) -> NextWord:
    hidden = model.encoder[0].hidden_size
    layer = nn.GRU(model.encoder[0].input_size, hidden, batch_first=True, bidirectional=True)
    states, final = packed(layer, model.encoder, model.source_embedding(ids), length)
    first = torch.tanh(model.bridge(torch.cat([final[0, 0], final[1, 0]])))

    def next_word(words: list[int]) -> Tensor:
        hidden, context = first, torch.zeros_like(first)
        for word in (summarization.START, *words):
            inputs = torch.cat([model.target_embedding.weight[word], context])
            hidden = model.cell(inputs[None], hidden[None])[0]
            energy = torch.stack([model.energy(torch.tanh(model.query(hidden) + model.key(s)))[0] for s in states])
            context = torch.softmax(energy, dim=0) @ states
        return torch.log_softmax(model.output(hidden), dim=0)

    return next_word


def tutorial(model: Any, ids: Tensor, length: int) -> NextWord:
    """PyTorch's tutorial: the attention's weights are of all places, those beyond the sentence hold zeros."""
    width = model.output.in_features
    layer = nn.GRU(width, width, batch_first=True)
    states, final = packed(layer, model.encoder, model.source_embedding(ids), length)
    places = torch.zeros(model.places.out_features, width)
    places[:length] = states

    def next_word(words: list[int]) -> Tensor:
        hidden = final[0, 0]
        for word in (seq2seq.START, *words):
            read = model.target_embedding.weight[word]
            looked = torch.softmax(model.places(torch.cat([read, hidden])), dim=0) @ places
            hidden = model.cell(torch.relu(model.combine(torch.cat([read, looked])))[None], hidden[None])[0]
        return torch.log_softmax(model.output(hidden), dim=0)

    return next_word


def gnmt(model: Any, ids: Tensor, length: int) -> NextWord:
    width = model.output.in_features
    layer = nn.LSTM(width, width, batch_first=True, bidirectional=True)
    states, (h, c) = packed(layer, model.bidirectional, model.source_embedding(ids), length)
    first = [(h[1], c[1])]
    for i, cell in enumerate(model.encoder):
        above, (h, c) = packed(nn.LSTM(cell.input_size, width, batch_first=True), [cell], states, length)
        states = above + states if i else above
        first.append((h[0], c[0]))
    vector = model.energy_scale * nn.functional.normalize(model.energy, dim=0)

    def next_word(words: list[int]) -> Tensor:
        layers, context = list(first), torch.zeros(1, width)
        for word in (nmt.START, *words):
            layers[0] = model.decoder[0](torch.cat([model.target_embedding.weight[[word]], context], 1), layers[0])
            output = layers[0][0]
            hidden = model.query(output) + model.energy_bias
            context = (torch.softmax(torch.tanh(hidden + model.key(states)) @ vector, dim=0) @ states)[None]
            for i in (1, 2, 3):
                layers[i] = model.decoder[i](torch.cat([output, context], 1), layers[i])
                output = layers[i][0] + output if i > 1 else layers[i][0]
        return torch.log_softmax(model.output(output)[0], dim=0)

    return next_word


def copy_layer(layer: Any, target: Any) -> Any:
    """Give PyTorch's own Transformer layer the weights of ours."""
    for ours, theirs in zip(layer.attention, ("self_attn", "multihead_attn"), strict=False):
        attention = target.get_submodule(theirs)
        for kind in ("weight", "bias"):
            parts = [part.get_parameter(kind) for part in (ours.query, ours.key, ours.value)]
            attention.get_parameter(f"in_proj_{kind}").copy_(torch.cat(parts))
        attention.out_proj.load_state_dict(ours.output.state_dict())
    target.linear1.load_state_dict(layer.inner[0].state_dict())
    target.linear2.load_state_dict(layer.inner[2].state_dict())
    for i, norm in enumerate(layer.norm, 1):
        target.get_submodule(f"norm{i}").load_state_dict(norm.state_dict())
    return target.eval()


def plain_transformer(model: Any, ids: Tensor, length: int) -> NextWord:
    width, heads, inner = model.embedding.embedding_dim, 2, model.encoder[0].inner[0].out_features
    places = torch.arange(model.positions.shape[0])[:, None] / 10_000 ** (torch.arange(0, width, 2) / width)
    positions = torch.empty(len(places), width)
    positions[:, 0::2], positions[:, 1::2] = places.sin(), places.cos()

    def embed(words: Tensor) -> Tensor:
        rows: Tensor = model.embedding.weight[words]
        return (rows * float(width**0.5) + positions[: len(words)])[None]

    source = embed(ids[:length].long())
    for layer in model.encoder:
        source = copy_layer(layer, nn.TransformerEncoderLayer(width, heads, inner, batch_first=True))(source)
    layers = [copy_layer(x, nn.TransformerDecoderLayer(width, heads, inner, batch_first=True)) for x in model.decoder]

    def next_word(words: list[int]) -> Tensor:
        target = embed(torch.tensor([transformer.START, *words]))
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        for layer in layers:
            target = layer(target, source, tgt_mask=mask)
        logits: Tensor = model.embedding.weight @ target[0, -1]
        return torch.log_softmax(logits, dim=0)

    return next_word
