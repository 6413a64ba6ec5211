"""Architectures of Transformers: each of the table, with the head that it was saved with, and all of its weights."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from servemark import workload
from servemark.errors import OptionError
from servemark.hub.blocks import description as hub
from tests.servemark.hub.test_models import EXPORTED
from tests.support.hub_folders import FOLDERS, OTHERS, SELDOM, answered, imported, write_folder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def test_every_architecture_is_tried() -> None:
    from servemark.hub.transformers import KINDS

    configs = [config for config, *_ in FOLDERS.values()] + [f"{begins}Config" for begins, *_ in OTHERS.values()]
    assert {getattr(transformers, config).model_type for config in configs} == {*KINDS}


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in FOLDERS if name not in EXPORTED),
        *(pytest.param(name, marks=pytest.mark.slow if name in SELDOM else []) for name in OTHERS),
    ],
)
def test_a_folder_answers_as_transformers_does(name: str, tmp_path: Path, counted_on: list[str]) -> None:
    found = imported(name, tmp_path)
    assert found.weights == "trained"
    assert counted_on == ["meta"] or name in OTHERS
    batch = found.request(list(itertools.islice(found.samples(np.random.default_rng(5)), 2)))
    wanted = answered(name, tmp_path, batch)
    with torch.no_grad():
        answers = found.build()(*(torch.from_numpy(batch[tensor.name]) for tensor in found.inputs))
    answers = answers if isinstance(answers, tuple) else (answers,)
    assert len(answers) == len(found.outputs)
    for tensor, answer in zip(found.outputs, answers, strict=True):
        right = getattr(wanted, tensor.name)
        assert answer.shape == right.shape == (2, *tensor.shape)
        assert float((answer - right).abs().max()) < 1e-5


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("vit encoder", "image encoding"),
        ("wav2vec2 encoder", "speech encoding"),
        ("dinov2", "image encoding"),
        ("beit", "image classification"),
    ],
)
def test_a_model_without_a_head_is_an_encoder(name: str, task: str, tmp_path: Path) -> None:
    """And is not given the head of random weights that Transformers would add."""
    assert imported(name, tmp_path).task == task


def without(tensor: str, path: Path) -> None:
    """Take a tensor out of a folder's weights."""
    from safetensors.torch import load_file, save_file

    weights = load_file(path / "model.safetensors")
    for name in [name for name in weights if name.endswith(tensor)]:
        del weights[name]
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_folder_of_half_precision_is_described_in_single(dtype: str, tmp_path: Path) -> None:
    path = write_folder("sentences", tmp_path)
    transformers.BertModel.from_pretrained(path).to(getattr(torch, dtype)).save_pretrained(path)
    found = hub.imported(path, "mine", {}, force=False)
    assert {port.datatype for port in found.outputs} == {"FP32"}


def test_weights_that_are_not_all_there_are_refused(tmp_path: Path) -> None:
    path = write_folder("vit encoder", tmp_path)
    without("layernorm.weight", path)
    hub.imported(path, "mine", {}, force=False)
    with pytest.raises(OptionError, match=r"lack 1 tensors of ViTModel, among them layernorm.weight, and its answers"):
        workload.get("mine").build()


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    found, weights = imported("vit encoder", tmp_path), tmp_path / "vit encoder" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(OptionError, match=r"its weights cannot be read by Transformers .*SafetensorError"):
        found.build()


@pytest.mark.parametrize(
    ("name", "tensor"), [("wav2vec2 encoder", "masked_spec_embed"), ("sentences", "pooler.dense.weight")]
)
def test_what_no_answer_depends_on_may_be_missing(name: str, tensor: str, tmp_path: Path) -> None:
    """Published checkpoints lack it: facebook/wav2vec2-base-960h the one, those saved for masked words the other."""
    found = imported(name, tmp_path)
    sample = next(found.samples(np.random.default_rng(0)))
    batch = [torch.from_numpy(sample[port.name])[None] for port in found.inputs]
    with torch.no_grad():
        before = found.build()(*batch)
        without(tensor, tmp_path / name)
        assert torch.equal(found.build()(*batch), before)


def test_a_detector_that_asks_for_the_length_of_its_batch_is_exported_for_any(tmp_path: Path) -> None:
    network = imported("rt_detr_v2", tmp_path).build()
    two, three = torch.rand(2, 3, 64, 64), torch.rand(3, 3, 64, 64)
    program = torch.export.export(network, (two,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    with torch.no_grad():
        for answer, right in zip(program.module()(three), network(three), strict=True):
            assert float((answer - right).abs().max()) < 1e-5
