"""NeuMF on MovieLens-100K: `python -m recipes.ncf_ml100k`, some 3 CPU minutes.

He et al. 2017, "Neural Collaborative Filtering" (WWW), section 4.1: four sampled negatives for each rating, binary
cross-entropy, Adam. Each user's last film is the test, which is left out here; the one before it validates.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from recipes.training import Trained, best_of, save
from servemark.datasets import ml_100k
from servemark.models.blocks.weights import seeded
from servemark.models.ncf import Sizes, network
from servemark.paths import DATA_ROOT
from servemark.quality.registry import metric_named

if TYPE_CHECKING:
    import torch

NAME = "ncf_ml100k"
SIZES = replace(Sizes(), users=ml_100k.USERS, items=ml_100k.ITEMS, candidates=100)
EPOCHS, BATCH, RATE, DECAY = 20, 1024, 5e-4, 1e-6
NEGATIVES = 4
VALIDATION_SEED = 1
METRIC = "HR@10"
Pairs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def train(data_root: Path = DATA_ROOT, epochs: int = EPOCHS, users: int | None = None) -> Trained:
    """Train on all users' films but their last two; `users` takes only the first so many. Raises InputDataError."""
    import torch
    from torch import nn

    histories = [(user - 1, films - 1) for user, films in ml_100k.read(data_root / ml_100k.KEY).histories()][:users]
    rated = np.zeros((SIZES.users, SIZES.items), bool)
    for user, films in histories:
        rated[user, films[:-2]] = True  # of the others nothing is known: they may well be drawn as negatives
    positives = np.array([(user, film) for user, films in histories for film in films[:-2]])
    queries = _validation(histories)
    with seeded(NAME):
        model = network(SIZES)
        _initialise(model)
        rng = np.random.default_rng(0)
        optimizer = torch.optim.Adam(model.parameters(), RATE, weight_decay=DECAY)
        loss_of = nn.BCELoss()

        def epoch(_: int) -> None:
            pairs, labels = _epoch(positives, rated, rng)
            for start in range(0, len(pairs), BATCH):
                users, films = torch.from_numpy(pairs[start : start + BATCH]).T
                scores = model(users[:, None], films[:, None]).squeeze(1)
                optimizer.zero_grad()
                loss_of(scores, torch.from_numpy(labels[start : start + BATCH])).backward()
                optimizer.step()

        return best_of(model, epochs, epoch, lambda: _hit_ratio(model(*queries)))


def _initialise(model: "torch.nn.Module") -> None:
    """As the paper does: N(0, 0.01) for embeddings, Glorot for layers."""
    from torch import nn

    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.01)
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)


def _epoch(
    positives: Pairs, rated: npt.NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Pairs, npt.NDArray[np.float32]]:
    """Ratings and films drawn that the user never rated, in a new order: pairs [N, 2] and labels [N]."""
    users = np.repeat(positives[:, 0], NEGATIVES)
    films = rng.integers(0, SIZES.items, len(users))
    while (wrong := rated[users, films]).any():
        films[wrong] = rng.integers(0, SIZES.items, int(wrong.sum()))
    pairs = np.concatenate([positives, np.stack([users, films], axis=1)])
    labels = np.repeat([1, 0], [len(positives), len(users)]).astype(np.float32)
    order = rng.permutation(len(pairs))
    return pairs[order], labels[order]


def _validation(histories: list[tuple[int, Pairs]]) -> "list[torch.Tensor]":
    """Each user's last film but one, before 99 that they did not rate until then: users [N, 1], films [N, 100]."""
    import torch

    rng = np.random.default_rng(VALIDATION_SEED)
    films = []
    for _, history in histories:
        others = np.setdiff1d(np.arange(SIZES.items), history[:-1])
        films.append(np.concatenate([history[-2:-1], rng.choice(others, SIZES.candidates - 1, replace=False)]))
    users = np.array([[user] for user, _ in histories])
    return [torch.from_numpy(users), torch.from_numpy(np.stack(films))]


def _hit_ratio(scores: "torch.Tensor") -> float:
    metric = metric_named(METRIC)
    return metric.values([metric.row([row], 0) for row in scores.numpy()])[0]


def main() -> None:
    """Train and write the weights."""
    save(NAME, train(), data="MovieLens-100K, all ratings but each user's last two", metric=METRIC)


if __name__ == "__main__":
    main()
