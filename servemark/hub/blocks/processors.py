"""Processors and tokenizers of Transformers, by which the user's pictures, texts and recordings become requests."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import transformers
from huggingface_hub.errors import EntryNotFoundError
from PIL import Image
from transformers.models.auto import image_processing_auto

from servemark import files
from servemark.errors import InputDataError, OptionError, parsing
from servemark.hub.blocks.network import file_of, hugging_face, quoted, require_name
from servemark.hub.blocks.ports import Port
from servemark.hub.blocks.requests import Pictures, Sounds, Texts
from servemark.models.synthesis.speech import SAMPLE_RATE
from servemark.workload import Sample

PROCESSORS = ("preprocessor_config.json", "processor_config.json")
"""Files of which each may hold an image processor."""
ANY_SIDE = 500
"""Side of the square picture of which a processor is asked what it makes."""
_auto: Any = transformers.AutoImageProcessor  # it has no types
_USUAL: Mapping[str, Mapping[str, str]] = vars(image_processing_auto)["IMAGE_PROCESSOR_MAPPING_NAMES"]


class Processor(NamedTuple):
    """An image processor of Transformers: a model's own, or the usual one of its architecture."""

    made: Any
    own: bool

    def picture(self, config: Any) -> Port:
        """Describe the input that it prepares for a model of this configuration.

        Its shape is what the processor makes of a square picture, because some keep a picture's proportions. The usual
        one knows no model, so that there the configuration's side counts, if it names one.
        """
        side = None if self.own else getattr(config, "image_size", None)
        sides = (side, side) if isinstance(side, int) else side
        return Port(
            name="pixel_values",
            datatype="FP32",
            shape=(3, *sides) if sides else _pixels(self.made, Image.new("RGB", (ANY_SIDE, ANY_SIDE))).shape,
            holds="picture",
            mean=tuple(self.made.image_mean) if self.made.do_normalize else (0.0,) * 3,
            std=tuple(self.made.image_std) if self.made.do_normalize else (1.0,) * 3,
        )


def json_of(model: str, name: str) -> Any:
    """Read a JSON file of a model, which is "" where it is known without the hub; None if it has none.

    Raises OptionError.
    """
    if not model:
        return None
    try:
        path = file_of(model, name)
    except (FileNotFoundError, EntryNotFoundError):
        return None
    except Exception as error:  # whatever the hub or the network raises
        raise OptionError(
            f"{model}: {name} could not be had: {quoted(error)}",
            fix="run it again where the hub answers; or `servemark import` the model's folder",
        ) from error
    with parsing(path, OptionError, fix="a folder as the library's `save_pretrained` writes it"):
        return msgspec.json.decode(files.content(path, files.DOCUMENT_BYTES))


def image_processor(config: Any) -> Processor:
    """Return a model's own image processor, or its architecture's usual one. Raises OptionError."""
    model = config.name_or_path
    if all(json_of(model, name) is None for name in PROCESSORS):
        usual = _USUAL.get(config.model_type) or {}
        return Processor(getattr(transformers, usual.get("torchvision", "ViTImageProcessor"))(), own=False)
    with hugging_face():
        try:
            return Processor(_auto.from_pretrained(model, trust_remote_code=False), own=True)
        except Exception as error:  # whatever the library raises
            raise OptionError(
                f"{model}: Transformers {transformers.__version__} cannot read its image processor: {quoted(error)}",
                fix="a folder as the library's `save_pretrained` writes it",
            ) from error


def prepared(processor: Mapping[str, Any], picture: Port) -> Pictures:
    """Return how an image processor, written as a dictionary, prepares a picture [3, height, width].

    Where it makes another shape of the picture, the picture is resized to this shape before, its proportions lost.
    """
    made = getattr(transformers, processor["image_processor_type"]).from_dict(dict(processor))
    _, height, width = picture.shape

    def prepare(image: Image.Image) -> npt.NDArray[np.float32]:
        pixels = _pixels(made, image)
        if pixels.shape == picture.shape:
            return pixels
        resized = image.resize((width, height), Image.Resampling(made.resample))
        return _pixels(made, resized, do_resize=False, do_center_crop=False)

    return prepare


def _pixels(processor: Any, image: Image.Image, **changes: bool) -> npt.NDArray[np.float32]:
    found: npt.NDArray[np.float32] = processor(image, return_tensors="np", **changes)["pixel_values"][0]
    return found


def tokenized(model: str, inputs: Sequence[Port], *, questions: bool) -> Texts:
    """Return how a model's tokenizer makes ids of a text, cut and padded. Raises InputDataError.

    Of `questions`, each text is a question and its context with a tab between them, and the context is cut.
    """
    tokenizer = _tokenizer(model)
    ports = {port.holds: port for port in inputs}
    length = ports["ids"].shape[0]
    encode = functools.partial(tokenizer, padding="max_length", max_length=length, return_token_type_ids=True)

    def sample(text: str) -> Sample:
        found = _of_question(encode, text) if questions else encode(text, truncation=True)
        # Where a tokenizer makes no mask, its model was trained to see the padding.
        mask = found.get("attention_mask", [1] * length)
        made = {"ids": found["input_ids"], "mask": mask, "context": found["token_type_ids"]}
        return {ports[holds].name: np.array(values, np.int64) for holds, values in made.items() if holds in ports}

    return sample


def _of_question(encode: Callable[..., Mapping[str, list[int]]], text: str) -> Mapping[str, list[int]]:
    question, tab, context = text.partition("\t")
    if not tab:
        raise InputDataError(
            f"{text[:80]!r} is not a question with its context", fix="write a tab between them, one pair in each line"
        )
    try:
        return encode(question, context, truncation="only_second")
    except Exception as error:  # whatever the library raises
        raise InputDataError(
            f"{text[:80]!r}: the question leaves no room for its context: {quoted(error)}", fix="a shorter question"
        ) from error


def _tokenizer(model: str) -> Any:
    tokenizer = _had(transformers.AutoTokenizer, model, "tokenizer", "texts cannot become ids")
    # For a folder without a vocabulary some classes make a tokenizer of special tokens alone.
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise InputDataError(
            f"{model}: its tokenizer has no vocabulary, so that texts cannot become ids", fix=_fix(model, "tokenizer")
        )
    return tokenizer


def heard(model: str, sound: Port) -> Sounds:
    """Return how a model's feature extractor prepares a recording of 16 kHz, cut and padded. Raises InputDataError."""
    extractor = _had(transformers.AutoFeatureExtractor, model, "feature extractor", "recordings cannot be prepared")
    whole = {"padding": "max_length", "truncation": True, "max_length": sound.shape[0]} if len(sound.shape) == 1 else {}

    def prepare(waveform: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        found = extractor(waveform, sampling_rate=SAMPLE_RATE, return_tensors="np", **whole)[sound.name][0]
        if found.shape != sound.shape:
            raise InputDataError(
                f"{model}: its feature extractor makes {list(found.shape)} of a recording, and the model takes "
                f"{list(sound.shape)}",
                fix="the feature extractor that belongs to the model, or `servemark import` with --shape",
            )
        return np.asarray(found, np.float32)

    return prepare


def _had(kind: Any, model: str, what: str, without: str) -> Any:
    """Read a part of a model from its folder, the hub or its cache. Raises InputDataError, OptionError."""
    require_name(model)
    with hugging_face():
        try:
            return kind.from_pretrained(model, trust_remote_code=False)
        except Exception as error:  # whatever the library, the hub or the network raises
            raise InputDataError(
                f"{model}: its {what}, without which {without}, could not be had: {quoted(error)}",
                fix=_fix(model, what),
            ) from error


def _fix(model: str, what: str) -> str:
    save = f"{what.replace(' ', '_')}.save_pretrained"
    if Path(model).is_absolute():
        return f"{save}({model!r})"
    return f"{save}(FOLDER) and `servemark import FOLDER`; or run it once where the hub answers"
