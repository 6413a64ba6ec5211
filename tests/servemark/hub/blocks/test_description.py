"""Descriptions: kept, made anew for another file, refused where nobody knows the model."""

import json
import re
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servemark import workload
from servemark.errors import OptionError
from servemark.hub.blocks import description as hub
from servemark.hub.blocks import network
from servemark.workload.registry import WORKLOADS
from tests.support.hub_folders import write_folder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def test_another_file_of_weights_is_another_model(tmp_path: Path) -> None:
    path = write_folder("bert", tmp_path)
    first = hub.imported(path, "mine", {}, force=False)
    with pytest.raises(OptionError, match="is there already"):
        hub.imported(path, "mine", {}, force=False)
    model = transformers.BertForSequenceClassification.from_pretrained(path)
    torch.nn.init.zeros_(model.classifier.weight)
    model.save_pretrained(path)
    assert hub.imported(path, "mine", {}, force=True).made_of != first.made_of


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"some": "thing"}, "neither of model_type, architecture"),
        ({"model_type": "gpt2"}, "the architecture 'gpt2', of which servemark does not know the requests"),
        ({"model_type": "no_such_model"}, "cannot read its configuration"),
        ({"architecture": "my_net"}, "cannot make it: "),
        ({"architecture": "resnet18", "pretrained_cfg": 5}, "cannot make it: "),
        ({"model_type": "bert", "auto_map": {"AutoConfig": "evil.Config"}}, ""),
    ],
)
def test_a_folder_that_is_not_known_is_refused(document: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "strange"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(document))
    (path / "evil.py").write_text("raise SystemExit('code of a folder ran')")
    if not words:
        assert "random weights" in hub.imported(path, "mine", {}, force=False).made_of
        return
    with pytest.raises(OptionError, match=re.escape(words)):
        hub.imported(path, "mine", {}, force=False)


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    path = write_folder("bert", tmp_path)
    (path / "model.safetensors").rename(path / "pytorch_model.bin")
    with pytest.raises(OptionError, match="is pickled") as caught:
        hub.imported(path, "mine", {}, force=False)
    assert "safe_serialization=True" in str(caught.value.fix)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("timm/resnet_that_is_not", "has no model 'resnet_that_is_not'"),
        ("torchvision/resnet_that_is_not", "has no classifier 'resnet_that_is_not'"),
        ("transformers/nobody/knows", "its configuration could not be had"),
        ("jax/resnet", "unknown workload 'jax/resnet'"),
    ],
)
def test_an_unknown_name_is_refused(name: str, words: str) -> None:
    with pytest.raises(OptionError, match=re.escape(words)):
        workload.get(name)


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(OptionError, match="timm is not installed") as caught:
        workload.get("timm/resnet18")
    assert caught.value.fix == hub.INSTALL


def test_what_is_kept_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(library: str) -> str:
        raise PackageNotFoundError(library)

    before = workload.get("timm/resnet18").made_of
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(hub, "version", missing)
    assert workload.get("timm/resnet18").made_of == before


def test_a_name_is_not_a_folder_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("resnet18", "google-bert/bert-base-uncased"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text('{"model_type": "bert", "architecture": "resnet34"}')
    assert workload.get("timm/resnet18").parameters == 11_689_512
    with pytest.raises(OptionError, match="google-bert/bert-base-uncased is a folder here"):
        workload.get("transformers/google-bert/bert-base-uncased")


def test_the_name_of_another_workload_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own.py"
    monkeypatch.setenv(WORKLOADS, str(file))
    for taken, path in (("mine", write_folder("bert", tmp_path)), ("timm--resnet18", Path("timm/resnet18"))):
        file.write_text(
            f"from dataclasses import replace\nfrom servemark.workload import get\n"
            f"WORKLOAD = replace(get('ncf'), name={taken!r}, tiny=None)\n"
        )
        with pytest.raises(OptionError, match=f"'{taken}' is a workload already"):
            hub.imported(path, taken, {}, force=True)
        assert workload.get(taken).name == taken
    with pytest.raises(OptionError, match="is a workload already"):
        workload.get("timm/resnet18")


def test_names_are_searched() -> None:
    assert "resnet18" in hub.search("timm", "resnet1")
    assert hub.search("torchvision", "vit_b") == ["vit_b_16", "vit_b_32"]
    assert hub.search("transformers", "MiniLM") == ["sentence-transformers/all-MiniLM-L6-v2"]
    with pytest.raises(OptionError, match="--library jax"):
        hub.search("jax", "")


def test_a_hub_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    asked: list[object] = []

    def refuse(place: object, _: float) -> None:
        asked.append(place)
        raise OSError("unreachable")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("socket.create_connection", refuse)
    network._answers.cache_clear()
    for _ in range(2):
        with network.hugging_face():
            assert constants.HF_HUB_OFFLINE
    network._answers.cache_clear()
    assert (len(asked), constants.HF_HUB_OFFLINE) == (1, False)


def test_nothing_is_imported_for_a_model_that_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    workload.get("timm/resnet18")
    monkeypatch.delitem(sys.modules, "servemark.hub.timm")
    found = workload.get("timm/resnet18")
    next(found.samples(np.random.default_rng(0)))
    assert "servemark.hub.timm" not in sys.modules
