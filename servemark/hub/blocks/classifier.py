"""Classifiers of pictures, as timm and torchvision have them: one picture in, one score for each class out."""

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from servemark.hub.blocks.description import Description
from servemark.hub.blocks.network import counted, spread
from servemark.hub.blocks.ports import Port
from servemark.models.blocks.weights import seeded

if TYPE_CHECKING:
    from torch import nn

MAX_BATCH = 64


def described(
    name: str,
    library: str,
    version: str,
    model: str,
    *,
    picture: Port,
    classes: int,
    make: "Callable[[], nn.Module]",
    random: str | None,
    preparation: Mapping[str, Any] = {},
) -> Description:
    """Describe a classifier. `make` makes it without trained weights; `random` is the reason why it has none.

    `preparation` says how the library prepares a picture, where that is not known by the model's name.
    """
    found = counted(make, (picture,), lambda logits: {"logits": logits})
    return Description(
        name=name,
        library=library,
        version=version,
        model=model,
        task="image classification",
        inputs=(picture,),
        outputs=found.outputs,
        parameters=found.parameters,
        flops=found.flops,
        max_batch=MAX_BATCH,
        random=random,
        facts={"classes": classes, "preparation": preparation},
    )


def built(description: Description, make: "Callable[[bool], nn.Module]") -> "nn.Module":
    """Make the network in eval mode. `make` takes True for its trained weights; random ones are seeded and spread."""
    trained = description.random is None
    with contextlib.nullcontext() if trained else seeded(description.name):
        network = make(trained)
        if not trained:
            spread(network, description.inputs, description.facts["classes"])
    return network.eval()
