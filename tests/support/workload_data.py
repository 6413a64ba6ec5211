"""What a test feeds a workload's model with, and what it answers."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from servemark.workload import Workload, get, stack


def batch_of(workload: Workload, rows: int, seed: int = 0) -> list[torch.Tensor]:
    """The inputs of `rows` samples, in the order of the interface."""
    samples = list(islice(workload.samples(np.random.default_rng(seed)), rows))
    return [torch.from_numpy(array) for array in stack(samples, workload.inputs).values()]


def answer(model: nn.Module, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        outputs: Any = model(*inputs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def read_requests(name: str, path: Path) -> list[Any]:
    """Every request that a workload reads from its data set, each as the workload's interface says."""
    workload = get(name)
    assert workload.read is not None
    found = list(workload.read(path))
    for tensor in workload.inputs:
        assert {(each[tensor.name].dtype, each[tensor.name].shape) for each in found} == {(tensor.dtype, tensor.shape)}
    return found
