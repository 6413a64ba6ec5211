"""NeuMF on MovieLens-100K: `python -m recipes.ncf_ml100k`, some 8 CPU minutes.

He et al. 2017, "Neural Collaborative Filtering" (WWW), section 4.1: four sampled negatives for each rating, binary
cross-entropy, Adam. What is kept is a moving average of the weights over the steps (Izmailov et al. 2018, "Averaging
Weights Leads to Wider Optima and Better Generalization", UAI; here an exponential one). Each user's last film is the
test, which is left out here. The film before it chooses the number of epochs, by HR@10 in the mean over all draws of 99
others. Then all is trained anew with it.
"""

import functools
from collections.abc import Callable
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
from servemark.quality.metrics.recommendation import TOP

if TYPE_CHECKING:
    from torch import nn

NAME = "ncf_ml100k"
SIZES = replace(Sizes(), users=ml_100k.USERS, items=ml_100k.ITEMS, candidates=100)
EPOCHS, BATCH, RATE, DECAY = 20, 1024, 5e-4, 1e-6
NEGATIVES = 4
AVERAGING = 0.999
"""Share of the averaged weights that is kept at each step."""
METRIC = f"HR@{TOP}"
Pairs = npt.NDArray[np.int64]
Histories = list[tuple[int, Pairs]]


def train(data_root: Path = DATA_ROOT, epochs: int = EPOCHS) -> Trained:
    """Train without each user's last film: choose the epoch without the film before it too, then train anew with it.

    Raises InputDataError.
    """
    histories = [(user - 1, films - 1) for user, films in ml_100k.read(data_root / ml_100k.KEY).histories()]
    chosen = _fit(histories, 2, epochs, functools.partial(_expected_hit_ratio, histories))
    return replace(chosen, model=refit(histories, chosen.epoch))


def refit(histories: Histories, epochs: int) -> "nn.Module":
    """Train for `epochs` on all films but each user's last."""
    return _fit(histories, 1, epochs, None).model


def _fit(histories: Histories, held: int, epochs: int, validate: "Callable[[nn.Module], float] | None") -> Trained:
    """Train on all films but each user's last `held`, of which nothing is known: they may be drawn as negatives."""
    import torch
    from torch import nn
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    rated = np.zeros((SIZES.users, SIZES.items), bool)
    for user, films in histories:
        rated[user, films[:-held]] = True
    positives = np.array([(user, film) for user, films in histories for film in films[:-held]])
    with seeded(NAME):
        model = network(SIZES)
        _initialise(model)
        rng = np.random.default_rng(0)
        averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(AVERAGING))  # type: ignore[no-untyped-call]
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
                averaged.update_parameters(model)

        kept = averaged.module
        return best_of(kept, epochs, epoch, functools.partial(validate, kept) if validate else None)


def _initialise(model: "nn.Module") -> None:
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


def _expected_hit_ratio(histories: Histories, model: "nn.Module") -> float:
    """Estimate how likely each user's last film but one is among the best ten, before 99 drawn unrated ones.

    One draw for each user would tell less: its standard error is 0.015.
    """
    import torch
    from scipy.stats import hypergeom

    films = torch.arange(SIZES.items)[None]
    better, others = [], []
    for user, history in histories:
        scores = model(torch.tensor([[user]]), films)[0].numpy()
        unrated = np.ones(SIZES.items, bool)
        unrated[history[:-1]] = False
        better.append(int((scores[unrated] >= scores[history[-2]]).sum()))
        others.append(int(unrated.sum()))
    return float(hypergeom.cdf(TOP - 1, others, better, SIZES.candidates - 1).mean())


def main() -> None:
    """Train and write the weights."""
    save(
        NAME,
        train(),
        data="MovieLens-100K, all ratings but each user's last; the epoch chosen without the last two",
        metric=METRIC,
    )


if __name__ == "__main__":
    main()
