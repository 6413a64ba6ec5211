"""torchvision: its classifiers of pictures."""

from pathlib import Path
from typing import Any

import torch
import torchvision
from torchvision import models

from servemark.errors import OptionError
from servemark.hub.blocks.description import Description
from servemark.hub.blocks.network import build_classifier, describe_classifier, downloading, reason
from servemark.hub.blocks.ports import Shapes
from servemark.hub.blocks.requests import Pictures
from servemark.workload import Module

CLASSES = 1000


def search(text: str) -> list[str]:
    """List the classifiers whose names contain a text."""
    return [name for name in models.list_models(module=models) if text in name]


def describe(model: str, name: str, shapes: Shapes) -> Description:
    """Describe a model; trained weights are looked for in the cache, then downloaded. Raises OptionError."""
    if model not in models.list_models(module=models):
        near = search(model.partition("_")[0])[:3]
        raise OptionError(
            f"torchvision {torchvision.__version__} has no classifier {model!r}",
            fix=f"did you mean {' or '.join(near)}?" if near else "servemark list --library torchvision TEXT",
        )
    weights = _weights(model)
    prepare: Any = weights.transforms()
    side = prepare.crop_size[0]
    return describe_classifier(
        name,
        "torchvision",
        torchvision.__version__,
        model,
        shapes=shapes,
        size=(3, side, side),
        mean=prepare.mean,
        std=prepare.std,
        classes=CLASSES,
        make=lambda: _network(model),
        random=_why_random(weights),
    )


def _weights(model: str) -> Any:
    return models.get_model_weights(model).DEFAULT


def _network(model: str, weights: Any = None) -> Module:
    # Of these two the forward pass in training mode gives auxiliary answers, too.
    auxiliary = {"aux_logits": False} if model in ("googlenet", "inception_v3") and weights is None else {}
    made: Module = models.get_model(model, weights=weights, **auxiliary)
    return made


def _why_random(weights: Any) -> str | None:
    """Have the trained weights in the cache: None; else the reason why they are not."""
    if (Path(torch.hub.get_dir()) / "checkpoints" / Path(weights.url).name).is_file():
        return None
    with downloading():
        try:
            weights.get_state_dict(progress=False, check_hash=True)
        except Exception as error:  # whatever the download raises
            return reason(error)
    return None


def build(description: Description) -> Module:
    """Make the network in eval mode."""

    def make(trained: bool) -> Module:
        return _network(description.model, _weights(description.model) if trained else None)

    return build_classifier(description, make)


def pictures(description: Description) -> Pictures:
    """Return how the weights' own transforms prepare a picture; another size keeps the share that is cut out."""
    prepare: Any = _weights(description.model).transforms()
    sides = description.inputs[0].shape[1:]
    prepare.resize_size = [prepare.resize_size[0] * min(sides) // prepare.crop_size[0]]
    prepare.crop_size = [*sides]
    return lambda picture: prepare(picture).numpy()
