"""Recipes on a few examples: the same weights each time, the best epoch, a file that says where it comes from."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from recipes import ncf_ml100k, spatial_transformer
from recipes.training import Trained, best_of, save
from servemark.workload import get
from tests.support.digits import write_digits


def test_the_first_best_epoch_is_kept() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    values = iter([0.1, 0.7, 0.7, 0.3])

    def train(epoch: int) -> None:
        with torch.no_grad():
            model.weight.fill_(epoch)

    trained = best_of(model, 4, train, lambda: next(values))
    assert (trained.epoch, trained.validation, trained.model.get_parameter("weight").item()) == (2, 0.7, 2.0)


def test_weights_say_where_they_come_from(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 1)
    path = save("a_recipe", Trained(model, 3, 9, 0.75), data="some digits", metric="accuracy", folder=tmp_path)
    with safe_open(path, "pt") as file:
        said = file.metadata()
    assert said["recipe"] == "python -m recipes.a_recipe"
    assert said["data"] == "some digits"
    assert said["validation"] == "accuracy 0.7500 in epoch 3 of 9"
    assert torch.equal(load_file(path)["weight"], model.weight)


def test_digits_train_to_the_same_weights_twice(tmp_path: Path) -> None:
    write_digits(tmp_path, 300, "train")
    first, again = (spatial_transformer.train(tmp_path, epochs=2, digits=200) for _ in range(2))
    for name, value in first.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name])
    get("spatial_transformer").build().load_state_dict(first.model.state_dict())


def test_ratings_train_without_each_user_s_last_film(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test film of `servemark quality` is no positive, and nothing depends on which one it is."""
    folder = tmp_path / "ml-100k"
    folder.mkdir()

    def trained(last: int) -> dict[str, torch.Tensor]:
        films = {user: [*range(user, user + 8), last + user] for user in range(1, 13)}
        rows = [f"{user}\t{film}\t4\t{time}" for user, seen in films.items() for time, film in enumerate(seen)]
        (folder / "u.data").write_text("\n".join(rows) + "\n")
        return ncf_ml100k.train(tmp_path, epochs=1).model.state_dict()

    monkeypatch.setattr(ncf_ml100k, "BATCH", 64)
    first, other = trained(100), trained(900)
    for name, value in first.items():
        np.testing.assert_array_equal(value, other[name])


@pytest.mark.parametrize("better", [0, 9, 10, 30, 1_500])
def test_the_expected_hit_ratio_is_that_of_all_draws(better: int) -> None:
    """99 of the 1,679 films that were not rated before: at most nine of them may be better than the right one."""
    right, test_film = better, 1_681  # the scores fall from film 0 on

    class Falling(torch.nn.Module):
        def forward(self, users: torch.Tensor, films: torch.Tensor) -> torch.Tensor:
            return -films.float().expand(len(users), -1)

    history = np.array([1_679, 1_680, right, test_film])
    draws = math.comb(1_679, 99)
    hits = sum(math.comb(better, among) * math.comb(1_679 - better, 99 - among) for among in range(10))
    assert ncf_ml100k._expected_hit_ratio([(0, history)], Falling()) == pytest.approx(hits / draws, abs=1e-9)
