"""Steps of every recipe: a fixed seed, the best epoch by validation, weights as safetensors with their provenance."""

import copy
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from servemark.machine.environment import collect
from servemark.paths import CHECKOUT

if TYPE_CHECKING:
    from torch import nn

WEIGHTS = CHECKOUT / "servemark" / "models" / "trained"
THREADS = 1
"""The order of additions, and so the weights, depends on the number of threads."""


@dataclass(frozen=True)
class Trained:
    """The weights of the epoch that did best on the validation split, from 1, and how well."""

    model: "nn.Module"
    epoch: int
    epochs: int
    validation: float


def best_of(
    model: "nn.Module", epochs: int, train: Callable[[int], None], validate: Callable[[], float] | None
) -> Trained:
    """Train for `epochs` and keep the first state that validates best, or the last; print each epoch's result."""
    import torch

    torch.set_num_threads(THREADS)
    best, found, kept = -1.0, 0, copy.deepcopy(model.state_dict())
    for epoch in range(1, epochs + 1):
        started = time.process_time()
        model.train()
        train(epoch)
        model.eval()
        with torch.inference_mode():
            value = validate() if validate else float(epoch)
        if value > best:
            best, found, kept = value, epoch, copy.deepcopy(model.state_dict())
        how = f"validation {value:.4f}" if validate else "without validation"
        print(f"epoch {epoch} of {epochs}: {how}, {time.process_time() - started:.1f} CPU s", flush=True)
    model.load_state_dict(kept)
    return Trained(model, found, epochs, best)


def save(name: str, trained: Trained, *, data: str, metric: str, folder: Path = WEIGHTS) -> Path:
    """Write the weights and where they come from; `data` says what they were trained on."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.safetensors"
    provenance = {
        "recipe": f"python -m recipes.{name}",
        "data": data,
        "validation": f"{metric} {trained.validation:.4f} in epoch {trained.epoch} of {trained.epochs}",
        "commit": str(collect().get("git_commit")),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "threads": str(THREADS),
    }
    state = {key: value.detach().contiguous() for key, value in trained.model.state_dict().items()}
    save_file(state, path, metadata=provenance)
    print(f"{path.relative_to(CHECKOUT) if path.is_relative_to(CHECKOUT) else path}: {provenance['validation']}")
    return path
