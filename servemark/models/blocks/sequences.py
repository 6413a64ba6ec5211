"""Sequences in graphs of fixed shape: loops, recurrent layers over padding, beam search, and CTC's best path.

CTC: Graves et al. 2006, "Connectionist Temporal Classification" (ICML), section 3.2. Decoding ends with the longest
sentence of the batch: the loop's condition is computed from the answer. A sentence that has ended no longer changes,
whatever the others of its batch do.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from servemark.workload import Module

if TYPE_CHECKING:
    import torch


TensorTuple: TypeAlias = "tuple[torch.Tensor, ...]"


def repeat_while(
    condition: "Callable[..., torch.Tensor]", body: Callable[..., TensorTuple], carried: TensorTuple
) -> TensorTuple:
    """Apply `body` while `condition` holds, whose number of steps may depend on the data.

    It is a loop of Python, in an export torch's while_loop: torch.export keeps that, and the
    ONNX exporter turns it into a Loop that ends when the condition says so.
    """
    import torch
    from torch._higher_order_ops.while_loop import while_loop

    if torch.compiler.is_exporting():
        result: TensorTuple = while_loop(condition, body, carried)  # type: ignore[no-untyped-call]  # torch gives it none
        return result
    while condition(*carried):
        carried = body(*carried)
    return carried


def within(lengths: "torch.Tensor", steps: int) -> "torch.Tensor":
    """Mask [B, steps]: whether a step lies within its sequence; `lengths` [B, 1]."""
    import torch

    return torch.arange(steps, device=lengths.device) < lengths


def reverse_within(sequence: "torch.Tensor", lengths: "torch.Tensor") -> "torch.Tensor":
    """Reverse each sequence [B, T, F] within its length, its own inverse; padding stays at the end.

    A forward recurrence over the result is the backward half of a bidirectional network over packed sequences.
    """
    import torch

    step = torch.arange(sequence.shape[1], device=sequence.device)
    index = torch.where(step < lengths, lengths - 1 - step, step)
    return torch.gather(sequence, 1, index.unsqueeze(2).expand_as(sequence))


def best_path(labels: "torch.Tensor", lengths: "torch.Tensor", blank: int) -> "tuple[torch.Tensor, torch.Tensor]":
    """Collapse each step's best label [B, T]: repeats merged, blanks dropped -> ids INT32 [B, T], lengths INT32 [B, 1].

    `lengths` [B, 1] counts the steps that are valid; what follows the ids is 0.
    """
    import torch

    steps = labels.shape[1]
    before = torch.nn.functional.pad(labels[:, :-1], (1, 0), value=-1)
    keep = (labels != before) & (labels != blank) & within(lengths, steps)
    count = keep.long().cumsum(dim=1)
    place = torch.where(keep, count - 1, steps)  # one slot behind the last for what is dropped
    ids = labels.new_zeros(labels.shape[0], steps + 1).scatter(1, place, labels)
    return ids[:, :steps].int(), count[:, -1:].int()


PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
SATURATED = 100.0
"""In FP32 and FP16 the sigmoid of this is exactly 1, and that of its negative so close to 0 that nothing is added."""


def lstm(cells: Iterable[Module], inputs: "torch.Tensor", padding: "torch.Tensor") -> "TensorTuple":
    """Run the cells, one for each of N directions, over inputs [B, S, D] without the padding [B, S].

    Returns outputs [B, S, N * H], meaningless at the padding, and the states h and c after the sentence, [N, B, H].
    """
    import torch

    inputs, weights, zero = _frozen(cells, (-1, 1, 0, 0), inputs, padding)  # input, forget, cell and output gate
    count, _, width = zero.shape
    outputs, h, c = torch.lstm(inputs, (zero, zero), weights, True, 1, 0.0, False, count == 2, True)
    # the cell state holds, but the output gate goes on; on its way back the layer meets the padding first, still at 0
    last = padding.logical_not().sum(dim=1, keepdim=True).unsqueeze(2) - 1  # [B, 1, 1]
    ahead = outputs[:, :, :width].gather(1, last.expand(-1, 1, width))
    return outputs, torch.cat([ahead.transpose(0, 1), h[1:]]), c


def gru(cells: Iterable[Module], inputs: "torch.Tensor", padding: "torch.Tensor") -> "TensorTuple":
    """Run the cells like `lstm`: outputs [B, S, N * H] and the state after the sentence, [N, B, H]."""
    import torch

    inputs, weights, zero = _frozen(cells, (0, 1, 0), inputs, padding)  # reset gate, update gate, candidate
    return torch.gru(inputs, zero, weights, True, 1, 0.0, False, len(zero) == 2, True)


def _frozen(
    cells: Iterable[Module], gates: tuple[int, ...], inputs: "torch.Tensor", padding: "torch.Tensor"
) -> "tuple[torch.Tensor, list[torch.Tensor], torch.Tensor]":
    """Let the padding hold the state as it is, in both directions, with the operators that every engine has.

    One more input is 1 at the padding, and its weights saturate the gates so that they keep everything and add
    nothing. ONNX has sequence lengths for this, which torch's exporter does not use. Returns the inputs with that one,
    the weights and the state at the start.
    """
    import torch

    parameters = [[cell.get_parameter(name) for name in PARAMETERS] for cell in cells]
    width = parameters[0][1].shape[1]
    hold = SATURATED * torch.tensor(gates, dtype=inputs.dtype, device=inputs.device)
    column = hold.repeat_interleave(width).unsqueeze(1)
    weights = []
    for weight_ih, *others in parameters:
        weights += [torch.cat([weight_ih, column], dim=1), *others]
    marked = torch.cat([inputs, padding.unsqueeze(2).to(inputs.dtype)], dim=2)
    return marked, weights, inputs.new_zeros(len(parameters), inputs.shape[0], width)


Step: TypeAlias = "Callable[[torch.Tensor, torch.Tensor, TensorTuple], tuple[torch.Tensor, TensorTuple]]"
"""(position [], previous word [R], state, each [R, ...]) -> (logits [R, V], next state); R rows are B * beams."""

LOGIT_DEVIATION = 6.0
"""Spread of a word's logit: a trained model is sure of its next word, and close calls would flip between engines."""
IMPOSSIBLE = -1e9
"""The log-probability of what must not be chosen; finite, since -inf times 0 is NaN."""


@dataclass(frozen=True)
class Search:
    """Beam search over at most `limit` words; `beams` 1 and `length_penalty` 0 make it greedy."""

    limit: int
    start: int
    end: int
    beams: int = 1
    length_penalty: float = 0.0
    """The exponent a of Wu et al. 2016, "Google's Neural Machine Translation System", equation 14."""


def search(step: Step, state: TensorTuple, rules: Search) -> TensorTuple:
    """Decode: ids INT32 [B, limit], 0 after the end; lengths INT32 [B, 1]; scores FP32 [B, 1] of the best hypothesis.

    `state` holds a sentence's state before the first word, each [B, ...]. As in tensorflow/nmt: hypotheses are ranked
    by log P / ((5 + words) / 6)^a, the end not counted; one that has ended stays a candidate with its own score; a
    sentence is done when all its beams have ended.
    """
    import torch

    batch, beams, device = state[0].shape[0], rules.beams, state[0].device
    places = torch.arange(rules.limit, device=device)
    offsets = torch.arange(batch, device=device).unsqueeze(1) * beams  # of a sentence's first beam among the rows
    only_first = torch.where(torch.arange(beams, device=device) == 0, 0.0, IMPOSSIBLE)

    def unfinished(position: torch.Tensor, *carried: torch.Tensor) -> torch.Tensor:
        return (position < rules.limit) & ~carried[4].all()

    def advance(position: torch.Tensor, *carried: torch.Tensor) -> TensorTuple:
        word, ids, total, length, ended, *before = carried
        logits, after = step(position, word, tuple(before))
        words = logits.shape[1]
        ends = torch.arange(words, device=device) == rules.end
        gain = torch.log_softmax(logits, dim=1).reshape(-1, beams, words)
        done = ended.unsqueeze(2)
        gain = torch.where(done, torch.where(ends, 0.0, IMPOSSIBLE), gain)  # the end costs nothing once it is there
        reached = total.unsqueeze(2) + gain  # [B, beams, V]
        # two divisors for each beam, rather than a power for each candidate
        longer, same = (((5 + length + more) / 6).pow(-rules.length_penalty).unsqueeze(2) for more in (1, 0))
        ranked = reached * torch.where(ends | done, same, longer)
        best = ranked.flatten(1).topk(beams).indices  # [B, beams]
        beam, chosen = best.div(words, rounding_mode="floor"), best.remainder(words)
        rows = (offsets + beam).flatten()
        ended_before = ended.gather(1, beam)
        ended = ended_before | (chosen == rules.end)
        ids = ids.flatten(0, 1).index_select(0, rows).reshape(ids.shape)
        ids = torch.where(places == position, chosen.masked_fill(ended, 0).unsqueeze(2), ids)
        total = reached.flatten(1).gather(1, best)
        length = length.gather(1, beam) + (~ended).long()
        return (
            position + 1,
            chosen.flatten(),
            ids,
            total,
            length,
            ended,
            *(tensor.index_select(0, rows) for tensor in after),
        )

    initial = (
        torch.zeros((), dtype=torch.long, device=device),
        torch.full((batch * beams,), rules.start, device=device),
        torch.zeros(batch, beams, rules.limit, dtype=torch.long, device=device),
        only_first.repeat(batch, 1),  # the beams start alike: all but the first must not be chosen
        torch.zeros(batch, beams, dtype=torch.long, device=device),
        torch.zeros(batch, beams, dtype=torch.bool, device=device),
        *(tensor.repeat_interleave(beams, dim=0) for tensor in state),
    )
    _, _, ids, total, length, *_ = repeat_while(unfinished, advance, initial)
    score = total * ((5 + length) / 6).pow(-rules.length_penalty)
    return ids[:, 0].int(), length[:, :1].int(), score[:, :1]  # topk sorts: the first beam is the best
