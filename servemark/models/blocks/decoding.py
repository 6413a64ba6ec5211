"""Autoregressive decoding inside the served model: beam search until every sentence has ended.

The loop's condition is computed from the answer, so decoding stops with the longest sentence of the batch. A sentence
that has ended no longer changes, whatever the others of its batch do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from servemark.models.blocks.loop import TensorTuple, repeat_while

if TYPE_CHECKING:
    import torch

Step: TypeAlias = "Callable[[torch.Tensor, torch.Tensor, TensorTuple], tuple[torch.Tensor, TensorTuple]]"
"""(position [], previous word [R], state, each [R, ...]) -> (logits [R, V], next state); R rows are B * beams."""

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
