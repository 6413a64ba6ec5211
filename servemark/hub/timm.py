"""PyTorch Image Models (timm): its classifiers of pictures."""

from pathlib import Path
from typing import Any

import timm
import torch

from servemark.errors import OptionError
from servemark.hub.blocks.description import Description
from servemark.hub.blocks.network import build_classifier, describe_classifier, hugging_face, quoted, reason
from servemark.hub.blocks.ports import Shapes
from servemark.hub.blocks.requests import Pictures
from servemark.workload import Module

_data: Any = timm.data  # it has no types


def search(text: str) -> list[str]:
    """List the classifiers whose names contain a text, or fit it as a pattern."""
    found: list[str] = timm.list_models(f"*{text}*")
    return found


def describe(model: str, name: str, shapes: Shapes) -> Description:
    """Describe a model; trained weights are looked for in the cache, then downloaded. Raises OptionError."""
    if not Path(model).is_absolute() and not timm.is_model(model):
        near = timm.list_models(f"*{model.partition('_')[0]}*")[:3]
        raise OptionError(
            f"timm {timm.__version__} has no model {model!r}",
            fix=f"did you mean {' or '.join(near)}?" if near else "servemark list --library timm TEXT searches names",
        )
    try:
        device = torch.device("meta")
        with device:
            network = _network(model)
    except Exception:  # its code looks at values: whatever the library raises
        device, network = torch.device("cpu"), _made(model)
    preparation = _data.resolve_data_config(pretrained_cfg=network.pretrained_cfg)
    classes: Any = network.num_classes
    if not classes:
        raise OptionError(f"{model} of timm has no classes, it gives features", fix="name a classifier")
    return describe_classifier(
        name,
        "timm",
        timm.__version__,
        model,
        shapes=shapes,
        size=preparation["input_size"],
        mean=preparation["mean"],
        std=preparation["std"],
        classes=classes,
        preparation=preparation,
        make=lambda: network if torch.get_default_device() == device else _network(model),
        random=_why_random(model),
    )


def _network(model: str, *, trained: bool = False) -> Module:
    """Make a model by its name or its folder, whose path is absolute: a name may be that of a folder, too."""
    made: Module = timm.create_model(f"local-dir:{model}" if Path(model).is_absolute() else model, pretrained=trained)
    return made


def _made(model: str, *, trained: bool = False) -> Module:
    """Make a model. Raises OptionError."""
    try:
        return _network(model, trained=trained)
    except Exception as error:  # whatever the library or the file raises
        raise OptionError(
            f"{model}: timm {timm.__version__} cannot make it: {quoted(error)}",
            fix="a folder as timm.models.save_for_hf(MODEL, FOLDER, safe_serialization=True) writes it"
            if Path(model).is_absolute()
            else "name another classifier: servemark list --library timm TEXT searches names",
        ) from error


def _why_random(model: str) -> str | None:
    """Have the trained weights in the cache or in the folder: None; else the reason why they are not."""
    if Path(model).is_absolute() and not any(Path(model).glob("*.safetensors")):
        return f"{model} has no *.safetensors"
    with hugging_face():
        try:
            _network(model, trained=True)
        except Exception as error:  # whatever the hub, the network or the file raises
            return reason(error)
    return None


def build(description: Description) -> Module:
    """Make the network in eval mode. Raises OptionError."""
    return build_classifier(description, lambda trained: _made(description.model, trained=trained))


def pictures(description: Description) -> Pictures:
    """Return how timm prepares a picture for the model."""
    whole = description.facts["preparation"] | {"input_size": description.inputs[0].shape}
    prepare = _data.create_transform(**whole)
    return lambda picture: prepare(picture).numpy()
