"""The spatial transformer on MNIST: `python -m recipes.spatial_transformer`, some 4 CPU minutes.

Jaderberg et al. 2015, "Spatial Transformer Networks" (NIPS), as PyTorch's tutorial trains it, by Adam with one cycle of
the learning rate. The last 5,000 training digits validate.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recipes.training import Trained, best_of, save
from servemark.datasets import mnist
from servemark.models.blocks.weights import seeded
from servemark.models.spatial_transformer import IDENTITY, MEAN, STD, network
from servemark.paths import DATA_ROOT

if TYPE_CHECKING:
    import torch

NAME = "spatial_transformer"
EPOCHS, BATCH, RATE = 12, 128, 4e-3
VALIDATION = 5_000
METRIC = "accuracy"


def train(data_root: Path = DATA_ROOT, epochs: int = EPOCHS, digits: int | None = None) -> Trained:
    """Train on MNIST's training digits, or on the last `digits` of them only. Raises InputDataError."""
    import torch
    from torch.nn import functional

    data = mnist.read(data_root / mnist.KEY, "train")
    pixels = data.images[-(digits or 0) :, None].astype(np.float32) / np.float32(255)
    images = torch.from_numpy((pixels - MEAN) / STD)
    labels = torch.from_numpy(data.labels[-(digits or 0) :].astype(np.int64))
    held = min(VALIDATION, len(labels) // 4)
    count = len(labels) - held
    with seeded(NAME):
        model = network()
        with torch.no_grad():  # at first the transform changes nothing
            model.get_parameter("localization.9.weight").zero_()
            model.get_parameter("localization.9.bias").copy_(torch.tensor(IDENTITY))
        optimizer = torch.optim.Adam(model.parameters(), RATE)
        steps = -(-count // BATCH) * epochs
        rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)

        def epoch(_: int) -> None:
            order = torch.randperm(count)
            for start in range(0, count, BATCH):
                chosen = order[start : start + BATCH]
                logprobs, _theta = model(images[chosen])
                optimizer.zero_grad()
                loss: torch.Tensor = functional.nll_loss(logprobs, labels[chosen])
                torch.autograd.backward(loss)
                optimizer.step()
                rates.step()

        return best_of(model, epochs, epoch, lambda: _accuracy(model(images[count:])[0], labels[count:]))


def _accuracy(logprobs: "torch.Tensor", labels: "torch.Tensor") -> float:
    return float((logprobs.argmax(dim=1) == labels).float().mean())


def main() -> None:
    """Train and write the weights."""
    save(NAME, train(), data="MNIST's training digits but the last 5,000", metric=METRIC)


if __name__ == "__main__":
    main()
