"""Batches of sequences of different lengths, and greedy decoding of connectionist temporal classification (CTC).

Graves et al. 2006, "Connectionist Temporal Classification" (ICML), section 3.2, best path decoding; in fixed shapes, so
that it exports.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


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


def greedy(labels: "torch.Tensor", lengths: "torch.Tensor", blank: int) -> "tuple[torch.Tensor, torch.Tensor]":
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
