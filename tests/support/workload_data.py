"""Inputs that a test sends to a workload's model, and the model's answers."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from exporters.pipeline import golden
from servemark.repository.entry import Golden
from servemark.workload import LabelledSet, Workload, get, stack


def batch_of(workload: Workload, rows: int, seed: int = 0) -> list[torch.Tensor]:
    """The inputs of `rows` samples, in the order of the interface."""
    samples = list(islice(workload.samples(np.random.default_rng(seed)), rows))
    return [torch.from_numpy(array) for array in stack(samples, workload.inputs).values()]


def firm_batch(model: nn.Module, workload: Workload, rows: int, seed: int = 0) -> list[torch.Tensor]:
    """The same, of samples whose answers hang on no rounding: two ways to compute them choose the same ids."""
    if not golden.discrete(workload):
        return batch_of(workload, rows, seed)
    drawn = list(islice(workload.samples(np.random.default_rng(seed)), 2 * rows))
    answered = golden.eager(model, workload, stack(drawn, workload.inputs))
    stay = firm(model, workload, answered, change=10 * golden.ENGINES_DIFFER)[:rows]
    assert len(stay) == rows
    return [torch.from_numpy(answered.inputs[tensor.name][stay]) for tensor in workload.inputs]


def firm(
    model: nn.Module,
    workload: Workload,
    answered: Golden,
    *,
    change: float = golden.ENGINES_DIFFER * golden.MARGIN,
    directions: Sequence[int] = golden.DIRECTIONS,
) -> list[int]:
    """The rows whose answers stay, within a wide tolerance, when each weight changes by this share of itself."""
    limits = golden._widened(workload.agreement, golden.MARGIN)
    moved = golden._weights_moved(model, workload, change)
    return list(golden.survivors(answered, moved, limits, directions))[-1]


def answer(model: nn.Module, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        outputs: Any = model(*inputs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def read_requests(name: str, path: Path) -> list[Any]:
    """Every request that a workload reads from its data set, each as the workload's interface says."""
    workload = get(name)
    assert workload.read is not None
    found = list(workload.read(path))
    assert found
    for tensor in workload.inputs:
        assert all(each[tensor.name].dtype == tensor.dtype and tensor.fits(each[tensor.name].shape) for each in found)
    return found


def labelled(name: str, path: Path) -> LabelledSet:
    """The labelled examples that a workload reads from its data set."""
    read = get(name).labelled
    assert read is not None
    return read(path)
