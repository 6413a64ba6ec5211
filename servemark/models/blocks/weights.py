"""Seeded initialisation: the same weights on every machine, without touching torch's global random state."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from servemark.workload import Module, Sample

if TYPE_CHECKING:
    import torch
    from torch import nn


def drawn(stream: Iterator[Sample], count: int) -> "list[torch.Tensor]":
    """Stack the first requests of a stream: a tensor [count, ...] for each input, in their order."""
    import torch

    requests = list(islice(stream, count))
    return [torch.from_numpy(np.stack([request[name] for request in requests])) for name in requests[0]]


@contextmanager
def seeded(name: str) -> Iterator[None]:
    """Draw torch's CPU random numbers from CRC32(name) within the block; the caller's state is restored after it."""
    import torch

    state = torch.random.get_rng_state()
    torch.default_generator.manual_seed(crc32(name.encode()))  # torch.manual_seed would reseed the GPUs as well
    try:
        yield
    finally:
        torch.random.set_rng_state(state)


def he(model: Module) -> None:
    """Draw the weights of convolutions and dense layers for rectifiers, and set their biases to 0.

    He et al. 2015, "Delving Deep into Rectifiers": activations keep their order of magnitude in depth.
    """
    from torch import nn

    for module in model.modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def glorot(model: Module, gain: float) -> None:
    """Draw the weights of dense and recurrent layers, and set vectors to 0; embeddings stay as they are."""
    from torch import nn

    for key, weight in model.named_parameters():
        if weight.dim() < 2:
            nn.init.zeros_(weight)
        elif "embedding" not in key:
            nn.init.xavier_normal_(weight, gain=gain)


def calibrate(model: Module, *inputs: "torch.Tensor") -> None:
    """Set every BatchNorm's running statistics to those of one batch, so that activations stay of order 1 in depth."""
    import torch
    from torch import nn

    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        model.eval()
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None  # a cumulative average, here over the one batch
    with torch.no_grad():
        model.train()(*inputs)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.eval()


def centre(
    head: "nn.Linear", answers: "torch.Tensor", *, spread: float = 1.0, around: "torch.Tensor | float" = 0.0
) -> None:
    """Change a last dense layer so that its answers [N, outputs] to some batch have this mean and deviation.

    It takes out what all requests have in common, so that an untrained model answers them differently.
    """
    gain = spread / answers.std(dim=0).mean()
    head.weight.mul_(gain)
    head.bias.sub_(answers.mean(dim=0)).mul_(gain).add_(around)
