"""Pictures and texts of the user's: prepared as the library itself prepares them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servemark.errors import InputDataError
from servemark.hub.blocks import description as hub
from servemark.workload import Workload, get
from tests.support.hub_folders import write_folder

torch = pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")
image = pytest.importorskip("PIL.Image")

TEXTS = ("the cat sat on the mat", "a dog", "the dog saw the cat and the cat saw the dog " * 20)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Two pictures of other sizes than any model's."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number, (height, width) in enumerate(((300, 401), (517, 260))):
        smooth = rng.integers(0, 255, (height // 8, width // 8, 3), np.uint8)
        image.fromarray(smooth).resize((width, height), image.Resampling.BICUBIC).save(folder / f"{number}.png")
    return folder


@pytest.mark.parametrize("name", ["timm/resnet18", "timm/mobilenetv3_small_050", "torchvision/convnext_tiny"])
def test_a_picture_is_prepared_as_the_library_does(name: str, pictures: Path) -> None:
    workload = get(name)
    library, model = name.split("/")
    if library == "timm":
        timm = pytest.importorskip("timm")
        prepare = timm.data.create_transform(**timm.data.resolve_model_data_config(timm.create_model(model)))
    else:
        prepare = pytest.importorskip("torchvision").models.get_model_weights(model).DEFAULT.transforms()
    assert workload.read is not None
    for sample, path in zip(workload.read(pictures), sorted(pictures.glob("*")), strict=True):
        right = prepare(image.open(path).convert("RGB")).numpy()
        assert sample["image"].shape == right.shape
        assert np.abs(sample["image"] - right).max() < 1e-5


@pytest.mark.parametrize("cut", [False, True])
def test_a_picture_is_prepared_as_its_processor_does(*, cut: bool, pictures: Path, tmp_path: Path) -> None:
    path = write_folder("vit", tmp_path)
    size = {"shortest_edge": 40} if cut else {"height": 32, "width": 32}
    more = {"crop_size": {"height": 32, "width": 32}, "do_center_crop": True} if cut else {}
    processor = (transformers.CLIPImageProcessor if cut else transformers.ViTImageProcessor)(
        size=size, resample=3, **more
    )
    processor.save_pretrained(path)
    hub.imported(path, "mine", {}, force=False)
    workload = get("mine")
    assert workload.read is not None
    for sample, file in zip(workload.read(pictures), sorted(pictures.glob("*")), strict=True):
        right = processor(image.open(file).convert("RGB"), return_tensors="np")["pixel_values"][0]
        assert sample["pixel_values"].shape == right.shape
        # The library rounds a resized picture to whole levels, or resizes with torch: within three of 255.
        assert np.abs(sample["pixel_values"] - right).max() < 3 / 255 / 0.225


@pytest.fixture
def tokenizer() -> Any:
    """A tokenizer of the words in TEXTS."""
    words = sorted({word for text in TEXTS for word in text.split()})
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    unknown, padding = {"unk_token": "[UNK]"}, {"pad_token": "[PAD]"}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, **unknown))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **padding)


def test_texts_go_through_the_tokenizer_of_the_folder(tokenizer: Any, tmp_path: Path) -> None:
    path = write_folder("bert", tmp_path)
    hub.imported(path, "mine", {}, force=False)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n\n")
    workload = get("mine")
    assert workload.read is not None
    with pytest.raises(InputDataError, match=r"bert has no tokenizer\.json") as caught:
        next(workload.read(tmp_path / "texts.txt"))
    assert "save_pretrained" in str(caught.value.fix)
    tokenizer.save_pretrained(path)
    _is_as_the_tokenizers(tokenizer, workload, tmp_path)


def test_texts_go_through_the_tokenizer_in_the_hubs_cache(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n\n")
    workload = get("transformers/sentence-transformers/all-MiniLM-L6-v2")
    assert workload.read is not None
    with pytest.raises(InputDataError, match=r"all-MiniLM-L6-v2: its tokenizer\.json, .* could not be had") as caught:
        next(workload.read(tmp_path / "texts.txt"))
    assert "where the hub answers" in str(caught.value.fix)
    cached = tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    tokenizer.save_pretrained(cached / "snapshots" / ("0" * 40))
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0" * 40)
    _is_as_the_tokenizers(tokenizer, workload, tmp_path)


def _is_as_the_tokenizers(tokenizer: Any, workload: Workload, folder: Path) -> None:
    assert workload.read is not None
    samples = list(workload.read(folder / "texts.txt"))
    length = workload.inputs[0].shape[0]
    right = tokenizer(list(TEXTS), padding="max_length", truncation=True, max_length=length, return_tensors="np")
    for name in ("input_ids", "attention_mask"):
        assert (np.stack([sample[name] for sample in samples]) == right[name]).all()


def test_a_file_without_text_is_refused(tmp_path: Path) -> None:
    hub.imported(write_folder("bert", tmp_path), "mine", {}, force=False)
    (tmp_path / "bert" / "tokenizer.json").write_text(tokenizers.Tokenizer(tokenizers.models.WordLevel()).to_str())
    (tmp_path / "empty.txt").write_text("\n \n")
    read = get("mine").read
    assert read is not None
    for name, words in (("empty.txt", "holds no text"), ("missing.txt", "cannot be read")):
        with pytest.raises(InputDataError, match=words):
            next(read(tmp_path / name))
