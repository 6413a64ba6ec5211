"""Models of libraries: described as the library counts them, exported, and answered as the library itself answers."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import exporters
from servemark import workload
from servemark.hub.blocks.published import KNOWN
from servemark.repository.entry import Entry
from tests.support.exporting import run_artifact
from tests.support.hub_folders import FOLDERS, NAMES, answered, imported
from tests.support.workload_data import answer, batch_of

timm = pytest.importorskip("timm")
torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")
transformers = pytest.importorskip("transformers")

RANDOM = [
    "timm/test_resnet",
    *(
        pytest.param(each, marks=pytest.mark.slow)  # others of the same kind, for seven seconds each
        for each in ("timm/tinynet_e", "torchvision/shufflenet_v2_x0_5", "timm/mobilenetv3_small_050")
    ),
]
EXPORTED = {"clip", "questions", "sentences", "t5", "wav2vec2"}
"""Texts of two and three inputs, a picture with a text, sounds, and code that is replaced; timm's are pictures.

The others differ in the library's layers alone: they are exported with the slow tests, and test_transformers.py has
their answers.
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_named_model_is_described_as_its_library_makes_it(name: str) -> None:
    found = workload.get(name)
    library, model = name.split("/")
    with torch.device("cpu" if model == "regnet_y_400mf" else "meta"):  # that one looks at values
        theirs = timm.create_model(model) if library == "timm" else torchvision.models.get_model(model)
    auxiliary = [module for key, module in theirs.named_children() if key.startswith("aux") and module is not None]
    wanted = sum(each.numel() for each in theirs.parameters())
    wanted -= sum(each.numel() for module in auxiliary for each in module.parameters())
    assert (found.parameters, found.outputs[0].shape, found.weights) == (wanted, (1000,), "random")
    assert found.flops is not None
    assert found.flops > 2 * max(each.numel() for each in theirs.parameters())
    assert "no downloads" in found.made_of or "could not be had" in found.made_of
    sample = next(found.samples(np.random.default_rng(0)))
    assert sample["image"].shape == found.inputs[0].shape
    assert workload.get(found.name).made_of == found.made_of  # by its name in paths


@pytest.mark.parametrize("name", RANDOM)
def test_a_random_network_answers_each_request_otherwise_and_is_exported(name: str, tmp_path: Path) -> None:
    found = workload.get(name)
    exporters.export(found, "onnxruntime", tmp_path / "repository")
    golden = Entry(tmp_path / "repository", found.name, "onnxruntime").read_golden()
    assert golden is not None
    check_that_they_differ(golden.outputs["logits"])


def test_a_random_network_of_torchvision_answers_each_request_otherwise() -> None:
    found = workload.get("torchvision/shufflenet_v2_x0_5")
    (answers,) = answer(found.build(), *batch_of(found, 16))
    check_that_they_differ(answers.numpy())


def check_that_they_differ(answers: npt.NDArray[Any]) -> None:
    assert len(set(answers.argmax(axis=1).tolist())) > 4
    assert answers.std(axis=0).mean() > 0.3


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in EXPORTED else pytest.mark.slow) for name in FOLDERS]
)
def test_a_folder_is_exported_and_answers_as_transformers_does(
    name: str, tmp_path: Path, counted_on: list[str]
) -> None:
    found = imported(name, tmp_path)
    assert (found.weights, counted_on) == ("trained", ["meta"])
    exporters.export(found, "onnxruntime", tmp_path / "repository")
    samples = list(itertools.islice(found.samples(np.random.default_rng(5)), 3))
    batch = found.request(samples)
    answer = run_artifact(Entry(tmp_path / "repository", "mine", "onnxruntime"), dict(batch))
    wanted = answered(name, tmp_path, batch)
    for tensor in found.outputs:
        if tensor.name == "embedding":
            mask = torch.from_numpy(batch["attention_mask"])[:, :, None].float()
            mean = (wanted.last_hidden_state * mask).sum(1) / mask.sum(1)
            right = (mean / mean.norm(dim=1, keepdim=True)).numpy()
        else:
            right = getattr(wanted, tensor.name).numpy()
        assert np.abs(answer[tensor.name] - right).max() < 1e-4
        assert answer[tensor.name].argmax() == right.argmax()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("google-bert/bert-base-uncased", 109_482_240),
        ("FacebookAI/roberta-base", 124_645_632),
        ("distilbert/distilbert-base-uncased", 66_362_880),
        ("microsoft/deberta-v3-base", 183_831_552),
        ("sentence-transformers/all-MiniLM-L6-v2", 22_713_216),
        ("sentence-transformers/all-mpnet-base-v2", 109_486_464),
        ("google/vit-base-patch16-224", 86_567_656),
        ("openai/clip-vit-base-patch32", 151_277_313),
        ("nvidia/segformer-b0-finetuned-ade-512-512", 3_752_694),
        ("facebook/wav2vec2-base-960h", 94_396_320),
    ],
)
def test_a_published_model_has_its_published_size_without_the_hub(name: str, parameters: int) -> None:
    found = workload.get(f"transformers/{name}")
    assert (found.parameters, found.weights) == (parameters, "random")


@pytest.mark.parametrize(
    ("name", "parameters"), [("FacebookAI/roberta-large", 355_359_744), ("openai/clip-vit-large-patch14", 427_616_513)]
)
def test_a_large_published_model_has_its_published_size(name: str, parameters: int) -> None:
    kind, changes = KNOWN[name]
    with torch.device("meta"):
        network = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(kind, **changes))
    assert sum(each.numel() for each in network.parameters()) == parameters
