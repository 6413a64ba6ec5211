"""Pictures, texts and recordings of the user's: prepared as the library itself prepares them."""

import json
import wave
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from servemark.errors import InputDataError, OptionError
from servemark.hub.blocks import description as hub
from servemark.hub.blocks import requests
from servemark.workload import get
from tests.support.hub_folders import imported, write_folder
from tests.support.workload_data import read_requests

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


TIMM = ("resnet18", "mobilenetv3_small_050", "tf_efficientnetv2_b3")  # the last keeps no proportions


@pytest.mark.parametrize("name", [*(f"timm/{each}" for each in TIMM), "torchvision/convnext_tiny"])
def test_a_picture_is_prepared_as_the_library_does(name: str, pictures: Path) -> None:
    library, model = name.split("/")
    if library == "timm":
        timm = pytest.importorskip("timm")
        cfg = timm.get_pretrained_cfg(model).to_dict()
        prepare = timm.data.create_transform(**timm.data.resolve_data_config(pretrained_cfg=cfg))
    else:
        prepare = pytest.importorskip("torchvision").models.get_model_weights(model).DEFAULT.transforms()
    _check_prepared(name, pictures, lambda picture: prepare(picture).numpy())


def _check_prepared(name: str, pictures: Path, prepare: Any) -> None:
    (tensor,) = get(name).inputs
    for sample, path in zip(read_requests(name, pictures), sorted(pictures.glob("*")), strict=True):
        right = prepare(image.open(path).convert("RGB"))
        assert right.shape == tensor.shape
        assert (sample[tensor.name] == right).all()


def test_a_picture_of_another_size_keeps_the_share_that_is_cut_out(pictures: Path) -> None:
    transforms = pytest.importorskip("torchvision").transforms._presets
    hub.imported(Path("torchvision/resnet18"), "small", {"image": (3, 112, 112)}, force=False)
    _check_prepared(
        "small", pictures, lambda each: transforms.ImageClassification(crop_size=112, resize_size=128)(each).numpy()
    )


NORMAL = {"do_normalize": True, "do_resize": True, "image_mean": [0.48, 0.45, 0.4], "image_std": [0.26, 0.26, 0.27]}
PROCESSORS = {
    "CLIP of 2021": {**NORMAL, "feature_extractor_type": "CLIPFeatureExtractor", "resample": 3}
    | {"crop_size": 32, "do_center_crop": True, "size": 32},
    "DeiT of 2021": {**NORMAL, "feature_extractor_type": "DeiTFeatureExtractor", "resample": 3}
    | {"crop_size": 32, "do_center_crop": True, "size": 36},
    "ConvNeXT's share": {**NORMAL, "feature_extractor_type": "ConvNextFeatureExtractor", "resample": 3}
    | {"crop_pct": 0.875, "size": 32},
    "blue first, not normalised": {"feature_extractor_type": "MobileViTFeatureExtractor", "resample": 2}
    | {"crop_size": 32, "do_center_crop": True, "do_flip_channel_order": True, "size": 36},
    "normalised twice": {**NORMAL, "image_processor_type": "EfficientNetImageProcessor", "include_top": True}
    | {"resample": 0, "size": {"height": 32, "width": 32}},
    "ViT": {**NORMAL, "image_processor_type": "ViTImageProcessor", "resample": 3, "size": {"height": 32, "width": 32}},
}  # fmt: skip
"""Files as published models have them."""


@pytest.mark.parametrize("file", PROCESSORS.values(), ids=PROCESSORS)
def test_a_picture_is_prepared_as_its_processor_does(file: dict[str, Any], pictures: Path, tmp_path: Path) -> None:
    path = write_folder("vit", tmp_path)
    (path / "preprocessor_config.json").write_text(json.dumps(file))
    hub.imported(path, "mine", {}, force=False)
    own = transformers.AutoImageProcessor.from_pretrained(path)
    _check_prepared("mine", pictures, lambda picture: own(picture, return_tensors="np")["pixel_values"][0])


def test_a_description_of_before_says_how_to_make_it_anew(pictures: Path, tmp_path: Path) -> None:
    found = hub.imported(write_folder("vit", tmp_path), "mine", {}, force=False)
    read = hub.workload(msgspec.structs.replace(found, facts={})).read
    assert read is not None
    with pytest.raises(OptionError, match="mine was made before servemark kept how its pictures") as caught:
        next(read(pictures))
    assert "delete" in str(caught.value.fix)


def test_a_picture_whose_proportions_a_processor_keeps_is_square_before(pictures: Path, tmp_path: Path) -> None:
    path = write_folder("detr", tmp_path)
    own = transformers.DetrImageProcessor(size={"shortest_edge": 96, "longest_edge": 160})
    own.save_pretrained(path)
    hub.imported(path, "mine", {}, force=False)
    assert get("mine").inputs[0].shape == (3, 96, 96)

    def square(picture: Any) -> Any:
        resized = picture.resize((96, 96), image.Resampling(own.resample))
        return own(resized, return_tensors="np")["pixel_values"][0]

    _check_prepared("mine", pictures, square)


def test_without_a_processor_the_architecture_s_own_prepares_the_configuration_s_size(
    pictures: Path, tmp_path: Path
) -> None:
    imported("segformer", tmp_path)
    usual = transformers.SegformerImageProcessor(size={"height": 64, "width": 64})

    def resized(picture: Any) -> Any:
        found = picture.resize((64, 64), image.Resampling(usual.resample))
        return usual(found, return_tensors="np")["pixel_values"][0]

    _check_prepared("mine", pictures, resized)


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
    imported("bert", tmp_path)
    path, texts = tmp_path / "bert", tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS) + "\n\n")
    with pytest.raises(InputDataError, match="bert: its tokenizer has no vocabulary") as caught:
        read_requests("mine", texts)
    assert f"tokenizer.save_pretrained('{path}')" == caught.value.fix
    tokenizer.save_pretrained(path)
    _is_as_the_tokenizers(tokenizer, "mine", texts)


def test_texts_go_through_the_tokenizer_in_the_hubs_cache(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    texts, name = tmp_path / "texts.txt", "transformers/sentence-transformers/all-MiniLM-L6-v2"
    texts.write_text("\n".join(TEXTS) + "\n\n")
    with pytest.raises(InputDataError, match=r"all-MiniLM-L6-v2: its tokenizer, .* could not be had") as caught:
        read_requests(name, texts)
    assert "where the hub answers" in str(caught.value.fix)
    cached = tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    tokenizer.save_pretrained(cached / "snapshots" / ("0" * 40))
    transformers.BertConfig().save_pretrained(cached / "snapshots" / ("0" * 40))
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0" * 40)
    _is_as_the_tokenizers(tokenizer, name, texts)


def test_a_question_and_its_context_are_a_pair(tokenizer: Any, tmp_path: Path) -> None:
    workload, file = imported("questions", tmp_path), tmp_path / "pairs.txt"
    tokenizer.save_pretrained(tmp_path / "questions")
    pairs = [("a cat", TEXTS[2]), ("the dog", TEXTS[0])]
    file.write_text("".join(f"{question}\t{context}\n" for question, context in pairs))
    right = tokenizer(
        *map(list, zip(*pairs, strict=True)), padding="max_length", truncation="only_second", max_length=40,
        return_tensors="np", return_token_type_ids=True,
    )  # fmt: skip
    assert right["token_type_ids"].any()
    samples = read_requests("mine", file)
    for tensor in workload.inputs:
        assert (np.stack([sample[tensor.name] for sample in samples]) == right[tensor.name]).all()
    file.write_text("no context")
    with pytest.raises(InputDataError, match="'no context' is not a question with its context"):
        read_requests("mine", file)
    file.write_text("the cat " * 50 + "\tthe dog")
    with pytest.raises(InputDataError, match="the question leaves no room"):
        read_requests("mine", file)


def test_a_picture_s_text_lies_beside_it(pictures: Path, tokenizer: Any, tmp_path: Path) -> None:
    path = write_folder("clip", tmp_path)
    tokenizer.save_pretrained(path)
    own = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    own.save_pretrained(path)
    hub.imported(path, "mine", {}, force=False)
    with pytest.raises(InputDataError, match=r"0\.png has no caption"):
        read_requests("mine", pictures)
    for number, text in enumerate(TEXTS[:2]):
        (pictures / f"{number}.txt").write_text(f"{text}\n")
    samples = read_requests("mine", pictures)
    right = tokenizer(list(TEXTS[:2]), padding="max_length", max_length=40, return_tensors="np")
    pixels = own([image.open(pictures / f"{number}.png") for number in range(2)], return_tensors="np")
    for tensor in get("mine").inputs:
        found = np.stack([sample[tensor.name] for sample in samples])
        assert (found == {**right, **pixels}[tensor.name]).all()


@pytest.mark.parametrize("name", ["wav2vec2", "whisper"])
def test_a_recording_goes_through_the_feature_extractor(name: str, tmp_path: Path) -> None:
    (tensor,) = imported(name, tmp_path).inputs
    rng = np.random.default_rng(0)
    sounds = [rng.integers(-9000, 9000, 16_000 * seconds, np.int16) for seconds in (1, 7)]
    for number, sound in enumerate(sounds):
        _record(tmp_path / f"{number}.wav", sound)
    with pytest.raises(InputDataError, match=f"{name}: its feature extractor, .* could not be had"):
        read_requests("mine", tmp_path)
    given = [sound.astype(np.float32) / 32_768 for sound in sounds]
    if name == "wav2vec2":
        made = transformers.Wav2Vec2FeatureExtractor(do_normalize=True)
        right = made(given, sampling_rate=16_000, padding="max_length", truncation=True, max_length=80_000)
    else:
        made = transformers.WhisperFeatureExtractor(feature_size=20, hop_length=400, chunk_length=3)
        right = made(given, sampling_rate=16_000)
    made.save_pretrained(tmp_path / name)
    found = np.stack([sample[tensor.name] for sample in read_requests("mine", tmp_path)])
    assert found.shape == (2, *tensor.shape)
    assert (found == np.stack(right[tensor.name])).all()


def test_an_extractor_of_another_model_is_refused(tmp_path: Path) -> None:
    imported("whisper", tmp_path)
    transformers.WhisperFeatureExtractor().save_pretrained(tmp_path / "whisper")
    _record(tmp_path / "0.wav", np.zeros(16_000, np.int16))
    with pytest.raises(InputDataError, match=r"makes \[80, 3000\] of a recording, and the model takes \[20, 120\]"):
        read_requests("mine", tmp_path)


def _record(path: Path, sound: Any) -> None:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16_000, len(sound), "NONE", ""))
        file.writeframes(sound.tobytes())


def _is_as_the_tokenizers(tokenizer: Any, name: str, texts: Path) -> None:
    samples = read_requests(name, texts)
    length = get(name).inputs[0].shape[0]
    right = tokenizer(list(TEXTS), padding="max_length", truncation=True, max_length=length, return_tensors="np")
    for each in ("input_ids", "attention_mask"):
        assert (np.stack([sample[each] for sample in samples]) == right[each]).all()


def test_a_text_ends_at_the_end_of_its_line_alone(tmp_path: Path) -> None:
    texts = [f"one{mark}text" for mark in "\u2028\u2029\x85\v\f\x1c\x1d\x1e"]
    (tmp_path / "texts.txt").write_bytes("\r\n".join(texts).encode())
    assert requests._lines(tmp_path / "texts.txt") == texts


def test_a_file_without_text_is_refused(tmp_path: Path) -> None:
    imported("bert", tmp_path)
    (tmp_path / "bert" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n")
    (tmp_path / "empty.txt").write_text("\n \n")
    for name, words in (("empty.txt", "holds no text"), ("missing.txt", "cannot be read")):
        with pytest.raises(InputDataError, match=words):
            read_requests("mine", tmp_path / name)
