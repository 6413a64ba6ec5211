"""Hugging Face Transformers: encoders of text, pictures and sound; detectors, segmenters; no generation of tokens."""

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import torch
import transformers
from torch import nn

from servemark.errors import OptionError
from servemark.hub.blocks.description import Description, encoder_of
from servemark.hub.blocks.network import counted, hugging_face, quoted, reason, require_name
from servemark.hub.blocks.ports import Port, Shapes, sized
from servemark.hub.blocks.processors import Processor, heard, image_processor, json_of, prepared, tokenized
from servemark.hub.blocks.published import KNOWN, SENTENCES
from servemark.hub.blocks.requests import Pictures, Sounds, Texts, requests
from servemark.hub.blocks.sentences import Embedding, Served, embedding
from servemark.models.blocks.weights import seeded

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    Config = PretrainedConfig
else:
    Config = Any

LONGEST_TEXT = 128
"""Ids of a text, where the model allows as many: what sentence embeddings and classifiers are mostly served with."""
LONGEST_QUESTION = 384
"""Ids of a question with its context, as Transformers' own pipeline cuts them and as SQuAD's models are trained."""
SOUND_S, SAMPLE_RATE = 5, 16_000
MAX_BATCH = 32


COUNTED_PAST_PADDING = {"camembert", "data2vec-text", "ibert", "mpnet", "roberta", "roberta-prelayernorm"}
COUNTED_PAST_PADDING |= {"xlm-roberta", "xlm-roberta-xl"}
"""Model types whose first position is that after the padding's id."""

# Bars and advice have no place between a command's lines.
_logging: Any = transformers.utils.logging
_logging.disable_progress_bar()
_logging.set_verbosity_error()


class Kind(NamedTuple):
    """Models that are fed and asked alike."""

    task: str
    inputs: Callable[[Config, Any], tuple[Port, ...]]
    """Takes a configuration, and for pictures the image processor."""
    auto: str
    """Class of Transformers that makes the network, where the configuration names none."""
    outputs: tuple[str, ...]
    """Attributes of its answer, of which those that it has are served."""
    part: str = ""
    """The part of it that is served, where not all is."""
    encoder: str = ""
    """The task of one that was saved without a head."""


def _positions(config: Config) -> int | None:
    """Return the ids that a text can have; None where positions are relative."""
    positions: int | None = getattr(config, "max_position_embeddings", None)
    if positions and config.model_type in COUNTED_PAST_PADDING:
        return positions - (config.pad_token_id or 0) - 1
    return positions


def _text(config: Config, _: Any) -> tuple[Port, ...]:
    asked = any("QuestionAnswering" in name for name in config.architectures or ())
    longest = LONGEST_QUESTION if asked else LONGEST_TEXT
    positions = _positions(config)
    shape = (min(positions or longest, longest),)
    ids = Port(
        name="input_ids",
        datatype="INT64",
        shape=shape,
        holds="ids",
        vocabulary=config.vocab_size,
        pad=config.pad_token_id or 0,
        longest=positions,
    )
    mask = Port(name="attention_mask", datatype="INT64", shape=shape, holds="mask")
    # The model is told which ids are the context.
    if asked and getattr(config, "type_vocab_size", 0) > 1:
        return ids, mask, Port(name="token_type_ids", datatype="INT64", shape=shape, holds="context")
    return ids, mask


def _picture(config: Config, processor: Processor) -> tuple[Port, ...]:
    return (processor.picture(config),)


def _pair(config: Config, processor: Processor) -> tuple[Port, ...]:
    ids, mask = _text(config.text_config, processor)
    # The embedding of a text is that at its end, the greatest id of the vocabulary.
    ids = msgspec.structs.replace(
        ids,
        vocabulary=ids.vocabulary - 2,
        pad=config.text_config.vocab_size - 1,
        first=config.text_config.vocab_size - 2,
        last=config.text_config.vocab_size - 1,
    )
    return ids, processor.picture(config.vision_config), mask


def _sound(_: Config, __: Any) -> tuple[Port, ...]:
    return (Port(name="input_values", datatype="FP32", shape=(SOUND_S * SAMPLE_RATE,), holds="sound"),)


def _frames(config: Config, _: Any) -> tuple[Port, ...]:
    return (
        Port(name="input_values", datatype="FP32", shape=(config.max_length, config.num_mel_bins), holds="features"),
    )


def _spectrum(config: Config, _: Any) -> tuple[Port, ...]:
    frames = 2 * config.max_source_positions  # the second convolution has a stride of 2
    return (Port(name="input_features", datatype="FP32", shape=(config.num_mel_bins, frames), holds="features"),)


OF_PICTURES = (_picture, _pair)
"""Inputs that the processor prepares."""
ENCODED = ("logits", "start_logits", "end_logits", "last_hidden_state")
TEXT = Kind("text encoding", _text, "AutoModel", ENCODED)
PICTURE = Kind("image classification", _picture, "AutoModelForImageClassification", ENCODED, encoder="image encoding")
PAIR = Kind("image and text embedding", _pair, "AutoModel", ("image_embeds", "text_embeds"))
BOXES = Kind("object detection", _picture, "AutoModelForObjectDetection", ("logits", "pred_boxes"))
MAP = Kind("semantic segmentation", _picture, "AutoModelForSemanticSegmentation", ENCODED, encoder="image encoding")
DEPTH = Kind("depth estimation", _picture, "AutoModelForDepthEstimation", ("predicted_depth",))
SPEECH = Kind("speech recognition", _sound, "AutoModelForCTC", ENCODED, encoder="speech encoding")
SOUND = Kind("sound classification", _frames, "AutoModelForAudioClassification", ENCODED, encoder="sound encoding")
SPEECH_ENCODER = Kind("speech encoding", _spectrum, "WhisperModel", ENCODED, part="encoder")
TEXT_OF_T5 = Kind("text encoding", _text, "T5EncoderModel", ENCODED)
OF_KIND = {
    TEXT: "albert bert camembert clip_text_model convbert data2vec-text deberta deberta-v2 distilbert electra ernie"
    " funnel ibert megatron-bert mobilebert modernbert mpnet nystromformer rembert roberta roberta-prelayernorm"
    " roformer squeezebert xlm-roberta xlm-roberta-xl",
    PICTURE: "beit clip_vision_model convnext convnextv2 cvt deit dinov2 dinov2_with_registers dinov3_convnext"
    " dinov3_vit efficientnet focalnet ijepa levit mobilenet_v1 mobilenet_v2 mobilevit poolformer pvt_v2 regnet resnet"
    " siglip_vision_model swiftformer swin swinv2 vit vit_msn",
    PAIR: "clip siglip",
    BOXES: "conditional_detr d_fine detr rt_detr rt_detr_v2 table-transformer yolos",
    MAP: "segformer upernet",
    DEPTH: "depth_anything dpt",
    SPEECH: "data2vec-audio hubert sew unispeech unispeech-sat wav2vec2 wav2vec2-conformer wavlm",
    SOUND: "audio-spectrogram-transformer",
    SPEECH_ENCODER: "whisper",
    TEXT_OF_T5: "mt5 t5",
}
"""Values of a configuration's `model_type`."""
KINDS = {model_type: kind for kind, types in OF_KIND.items() for model_type in types.split()}


def search(text: str) -> list[str]:
    """List the names that are known without the hub and contain a text."""
    return sorted(name for name in KNOWN if text.lower() in name.lower())


def describe(model: str, name: str, shapes: Shapes) -> Description:
    """Describe a model by its name on the hub, or by the path of its folder. Raises OptionError."""
    whole, model = model, str(encoder_of(Path(model))) if Path(model).is_absolute() else model
    config, random = _configuration(model)
    kind = _kind(config, model)
    processor = image_processor(config) if kind.inputs in OF_PICTURES else None
    inputs = sized(kind.inputs(config, processor), shapes)
    how = None
    if kind is TEXT:
        read = functools.partial(json_of, whole if config.name_or_path else "")
        how = SENTENCES.get(model) or embedding(whole, read)
    if how:
        config.architectures = None  # sentence-transformers takes the encoder, whatever head it was saved with
    facts = {"config": config.to_diff_dict(), "model_type": config.model_type, "embedding": how}
    facts |= {"processor": processor.made.to_dict()} if processor else {}
    names = tuple(port.name for port in inputs)
    headless = kind.encoder if _class(config, kind) is transformers.AutoModel else ""
    task = "sentence embedding" if how else headless or kind.task

    def network() -> nn.Module:
        return Served(_part(_network(config, kind), kind), names, ("embedding",) if how else (), how)

    found = counted(
        network,
        inputs,
        lambda answer: (
            {"embedding": answer}
            if how
            else {each: value for each in kind.outputs if (value := getattr(answer, each, None)) is not None}
        ),
    )
    return Description(
        name=name,
        library="transformers",
        version=transformers.__version__,
        model=model,
        task=task,
        inputs=inputs,
        outputs=found.outputs,
        parameters=found.parameters,
        flops=found.flops,
        max_batch=MAX_BATCH,
        random=random,
        facts=facts,
    )


def _configuration(model: str) -> tuple[Config, str | None]:
    """Find a model's configuration, and why its weights are random. Raises OptionError."""
    if Path(model).is_absolute():
        try:
            config = transformers.AutoConfig.from_pretrained(model, local_files_only=True)
        except Exception as error:  # whatever the library raises
            raise OptionError(
                f"{model}: Transformers {transformers.__version__} cannot read its configuration: {error}",
                fix="a folder as `save_pretrained` writes it, of an architecture that needs no code of its own",
            ) from error
        return config, None if _weights(Path(model)) else f"{model} has no *.safetensors"
    require_name(model)
    with hugging_face():
        try:
            config = transformers.AutoConfig.from_pretrained(model, trust_remote_code=False)
        except Exception as error:  # whatever the hub or the network raises
            full = model if model in KNOWN else next((each for each in KNOWN if each.endswith(f"/{model}")), "")
            if not full:
                raise OptionError(
                    f"transformers/{model}: its configuration could not be had: {quoted(error)}",
                    fix="have it in the hub's cache, `servemark import FOLDER`, or one of: " + ", ".join(KNOWN),
                ) from error
            kind, changes = KNOWN[full]
            return transformers.AutoConfig.for_model(kind, **changes), reason(error)
        try:
            _kind(config, model)
            _pretrained(model, config)
        except OptionError:
            raise
        except Exception as error:  # likewise
            return config, reason(error)
    return config, None


def _weights(folder: Path) -> bool:
    """Tell whether a folder has weights. Raises OptionError where it has only pickled ones, which could run code."""
    if any(folder.glob("*.safetensors")):
        return True
    if pickled := sorted(folder.glob("pytorch_model*.bin")):
        raise OptionError(
            f"{pickled[0]} is pickled: reading it may run what somebody wrote into it",
            fix="save it as safetensors: model.save_pretrained(FOLDER, safe_serialization=True)",
        )
    return False


def _kind(config: Config, model: str) -> Kind:
    kind = KINDS.get(config.model_type)
    if kind is None:
        raise OptionError(
            f"{model} is of the architecture {config.model_type!r}, of which servemark does not know the requests",
            fix=f"one of {', '.join(sorted(KINDS))}; or export it to ONNX and `servemark import` it",
        )
    return kind


HEADS = ("Classification", "QuestionAnswering", "Detection", "Segmentation", "DepthEstimation", "CTC")
"""Parts of the names of classes whose answers are served."""


def _class(config: Config, kind: Kind) -> Any:
    """Return the class that the configuration names, where that has such a head; without one the encoder.

    A head that the weights lack would be a random one. Where the configuration names nothing, it is the kind's class.
    """
    for name in config.architectures or ():
        if any(head in name for head in HEADS):
            return getattr(transformers, name, None) or getattr(transformers, kind.auto)
    return transformers.AutoModel if config.architectures and kind.encoder else getattr(transformers, kind.auto)


def _network(config: Config, kind: Kind) -> nn.Module:
    made = _class(config, kind)
    # Single precision, whatever the weights were saved in, for which an `Auto` class asks the configuration.
    network: nn.Module = made.from_config(config, dtype=torch.float32) if hasattr(made, "from_config") else made(config)
    return network


def _pretrained(model: str, config: Config) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """Make a network with the weights of a folder or of the hub; also return its tensors that the weights lack."""
    require_name(model)
    # Of code that the folder brings nothing is run, and pickled weights are not read.
    network, loaded = _class(config, _kind(config, model)).from_pretrained(
        model,
        config=config,
        trust_remote_code=False,
        use_safetensors=True,
        dtype=torch.float32,
        output_loading_info=True,
    )
    tensors = network.state_dict()
    return network, {name: tensors[name] for name in sorted(loaded["missing_keys"])}


def _depends(network: nn.Module, inputs: Sequence[Port], tensors: Iterable[torch.Tensor]) -> bool:
    """Tell whether a network's answers depend on some of its tensors, which are 0 afterwards.

    Many are saved without a pooler whose answer is not served, or without what stands for masked input in training.
    """
    sample = next(requests(tuple(inputs), np.random.default_rng(0)))
    batch = [torch.from_numpy(sample[port.name])[None] for port in inputs]
    answers = []
    with torch.no_grad():
        for value in (1.0, 0.0):
            for tensor in tensors:
                tensor.fill_(value)
            answer = network(*batch)
            answers.append(answer if isinstance(answer, tuple) else (answer,))
    return not all(torch.equal(one, other) for one, other in zip(*answers, strict=True))


def _length(of: Any) -> int:
    return of.shape[0] if isinstance(of, torch.Tensor) else len(of)


def _make_traceable(network: nn.Module) -> None:
    """Replace two functions in the code of a network's class, by which an export would be of one batch or fail.

    Python's `len` makes a plain number of a batch. The library's checks of shapes have no operator in ONNX.
    """
    code = vars(sys.modules[type(network).__module__])
    code["len"] = _length
    if "torch_compilable_check" in code:
        code["torch_compilable_check"] = lambda *_, **__: None


def _part(network: nn.Module, kind: Kind) -> nn.Module:
    return network.get_submodule(kind.part) if kind.part else network


def build(description: Description) -> nn.Module:
    """Make the network in eval mode."""
    facts = description.facts
    config = transformers.AutoConfig.for_model(**facts["config"] | {"model_type": facts["model_type"]})
    kind = KINDS[config.model_type]
    lacking: dict[str, torch.Tensor] = {}
    if description.random is None:
        try:
            network, lacking = _pretrained(description.model, config)
        except OptionError:
            raise
        except Exception as error:  # whatever the library raises
            raise OptionError(
                f"{description.model}: its weights cannot be read by Transformers {transformers.__version__}: "
                f"{quoted(error)}",
                fix="save them again, whole and not quantised: model.save_pretrained(FOLDER)",
            ) from error
    else:
        with seeded(description.name):
            network = _network(config, kind)
    _make_traceable(network)
    names = tuple(port.name for port in description.inputs)
    outputs = tuple(port.name for port in description.outputs)
    # Descriptions of before November 2026 know one way of embedding.
    how = facts.get("embedding") or (facts.get("pooled") and Embedding("mean", normalised=True))
    served = Served(_part(network, kind), names, outputs, Embedding(*how) if how else None).eval()
    if lacking and _depends(served, description.inputs, lacking.values()):
        raise OptionError(
            f"{description.model}: its weights lack {len(lacking)} tensors of {type(network).__name__}, "
            f"among them {next(iter(lacking))}, and its answers depend on them",
            fix="save it with all of them, or name in config.json's `architectures` the class that was saved",
        )
    return served


def pictures(description: Description) -> Pictures:
    """Return how the model's image processor prepares a picture."""
    [port] = [port for port in description.inputs if port.holds == "picture"]
    return prepared(description.facts["processor"], port)


def texts(description: Description) -> Texts:
    """Return how the model's tokenizer makes ids of a text. Raises InputDataError where the model has none."""
    questions = any(port.name == "start_logits" for port in description.outputs)
    return tokenized(description.model, description.inputs, questions=questions)


def sounds(description: Description) -> Sounds:
    """Return how the model's feature extractor prepares a recording. Raises InputDataError where it has none."""
    return heard(description.model, description.inputs[0])
