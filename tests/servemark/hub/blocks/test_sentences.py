"""Sentence embeddings: what a folder of sentence-transformers asks for, and the vectors."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from servemark import workload
from servemark.errors import OptionError
from servemark.hub.blocks import description as hub
from servemark.hub.blocks.sentences import POOLINGS, Embedding, embed, embedding
from servemark.workload.imported import models_folder
from tests.support.hub_folders import write_embedding, write_folder

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

FLAGS = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
PLAIN = ["Transformer", "Pooling"]


def flags(*on: str) -> dict[str, bool]:
    return {f"pooling_mode_{each}": each in on for each in FLAGS}


@pytest.mark.parametrize(
    ("modules", "pooling", "wanted"),
    [
        (PLAIN, flags("cls_token"), Embedding("cls", False)),
        ([*PLAIN, "Normalize"], flags("mean_tokens"), Embedding("mean", True)),
        (PLAIN, flags("max_tokens"), Embedding("max", False)),
        (PLAIN, flags("mean_sqrt_len_tokens"), Embedding("mean_sqrt_len_tokens", False)),
        (PLAIN, {"pooling_mode": "cls"}, Embedding("cls", False)),
        (PLAIN, {}, Embedding("mean", False)),
        (["Transformer"], {}, None),
    ],
)
def test_a_folder_says_how_it_embeds(
    modules: list[str], pooling: dict[str, Any], wanted: Embedding | None, tmp_path: Path
) -> None:
    path = write_folder("bert", tmp_path)
    write_embedding(path, modules, pooling)
    hub.imported(path, "mine", {}, force=False)
    found = workload.get("mine")
    if wanted is None:
        assert [tensor.name for tensor in found.outputs] == ["logits"]
        return
    assert [tensor.name for tensor in found.outputs] == ["embedding"]
    assert found.build()._how == wanted


@pytest.mark.parametrize(
    ("modules", "pooling", "words"),
    [
        ([*PLAIN, "Dense"], flags("mean_tokens"), "a module Dense, which is not served"),
        (PLAIN, flags("lasttoken"), "asks for the pooling lasttoken, which"),
        (PLAIN, flags("mean_tokens", "cls_token"), "asks for the pooling cls and mean, which"),
        (PLAIN, flags(), "asks for the pooling of none, which"),
    ],
)
def test_what_is_not_served_is_refused_by_its_name(
    modules: list[str], pooling: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = write_folder("bert", tmp_path)
    write_embedding(path, modules, pooling)
    with pytest.raises(OptionError, match=words):
        hub.imported(path, "mine", {}, force=False)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = write_folder("bert", tmp_path)
    (path / hub.MODULES).write_text("[{")
    with pytest.raises(OptionError, match=r"modules\.json cannot be read"):
        hub.imported(path, "mine", {}, force=False)


def test_a_description_of_an_older_version_embeds_as_before(tmp_path: Path) -> None:
    path = write_folder("sentences", tmp_path)
    kept = hub.imported(path, "mine", {}, force=False)
    facts = {key: value for key, value in kept.facts.items() if key != "embedding"} | {"pooled": True}
    hub.keep(msgspec.structs.replace(kept, facts=facts), models_folder() / "mine")
    assert workload.get("mine").build()._how == Embedding("mean", normalised=True)


def test_an_encoder_in_a_folder_of_its_own_embeds_as_its_model_says(tmp_path: Path) -> None:
    path = write_folder("sentences", tmp_path)
    (path / "0_Transformer").mkdir()
    for name in ("config.json", "model.safetensors"):
        (path / name).rename(path / "0_Transformer" / name)
    modules = json.loads((path / hub.MODULES).read_text())
    (path / hub.MODULES).write_text(json.dumps([{**each, "path": f"{each['idx']}_Transformer"} for each in modules]))
    assert hub.is_importable(path)
    kept = hub.imported(path, "mine", {}, force=False)
    assert (kept.sha256 != "", kept.random) == (True, None)
    assert workload.get("mine").build()._how == Embedding("mean", normalised=True)


def test_without_its_files_a_model_embeds_nothing() -> None:
    assert embedding("any", lambda _: None) is None


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_adds_nothing_to_a_vector(pooling: str, normalised: bool) -> None:
    rng = np.random.default_rng(0)
    vectors, lengths = rng.normal(size=(3, 5, 4)).astype(np.float32), (5, 2, 1)
    mask = np.array([[place < length for place in range(5)] for length in lengths], np.int64)
    found = embed(Embedding(pooling, normalised), torch.from_numpy(vectors), torch.from_numpy(mask)).numpy()
    for row, length in enumerate(lengths):
        own = vectors[row, :length]
        right = {
            "mean": own.mean(0),
            "cls": own[0],
            "max": own.max(0),
            "mean_sqrt_len_tokens": own.sum(0) / np.sqrt(length),
        }[pooling]
        right = right / np.linalg.norm(right) if normalised else right
        assert np.abs(found[row] - right).max() < 1e-6
