"""PyTorch Image Models (timm): its classifiers of pictures."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import timm

from servemark.errors import OptionError
from servemark.hub.blocks.classifier import built, described
from servemark.hub.blocks.description import Description
from servemark.hub.blocks.network import hugging_face, reason
from servemark.hub.blocks.own_data import Pictures
from servemark.hub.blocks.ports import Port, Shapes, sized

if TYPE_CHECKING:
    from torch import nn

_data: Any = timm.data  # it has no types


def search(text: str) -> list[str]:
    """List the classifiers whose names contain a text, or fit it as a pattern."""
    found: list[str] = timm.list_models(f"*{text}*")
    return found


def describe(model: str, name: str, shapes: Shapes) -> Description:
    """Describe a model; trained weights are looked for in the cache, then downloaded. Raises OptionError."""
    folder = Path(model)
    if not folder.is_dir() and not timm.is_model(model):
        near = timm.list_models(f"*{model.partition('_')[0]}*")[:3]
        raise OptionError(
            f"timm {timm.__version__} has no model {model!r}",
            fix=f"did you mean {' or '.join(near)}?" if near else "servemark list --library timm TEXT searches names",
        )
    network = timm.create_model(_place(model), pretrained=False)
    preparation = _data.resolve_data_config(pretrained_cfg=network.pretrained_cfg)
    classes: Any = network.num_classes
    if not classes:
        raise OptionError(f"{model} of timm has no classes, it gives features", fix="name a classifier")
    whole = Port(
        name="image",
        datatype="FP32",
        shape=tuple(preparation["input_size"]),
        holds="picture",
        mean=tuple(preparation["mean"]),
        std=tuple(preparation["std"]),
    )
    (picture,) = sized([whole], shapes)
    return described(
        name,
        "timm",
        timm.__version__,
        model,
        picture=picture,
        classes=classes,
        preparation=preparation,
        make=lambda: timm.create_model(_place(model), pretrained=False),
        random=_why_random(model),
    )


def _place(model: str) -> str:
    """Name a model as timm takes it, also by its folder."""
    return f"local-dir:{model}" if Path(model).is_dir() else model


def _why_random(model: str) -> str | None:
    """Have the trained weights in the cache or in the folder: None; else the reason why they are not."""
    if Path(model).is_dir() and not any(Path(model).glob("*.safetensors")):
        return f"{model} has no *.safetensors"
    with hugging_face():
        try:
            timm.create_model(_place(model), pretrained=True)
        except Exception as error:  # whatever the hub, the network or the file raises
            return reason(error)
    return None


def build(description: Description) -> "nn.Module":
    """Make the network in eval mode."""
    return built(description, lambda trained: timm.create_model(_place(description.model), pretrained=trained))


def pictures(description: Description) -> Pictures:
    """Return how timm prepares a picture for the model."""
    whole = description.facts["preparation"] | {"input_size": description.inputs[0].shape}
    prepare = _data.create_transform(**whole)
    return lambda picture: prepare(picture).numpy()
