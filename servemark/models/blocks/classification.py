"""ImageNet classification: the requests, the real pictures, the interface and the weights that the networks share."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from servemark.datasets import image_folder
from servemark.models.blocks.weights import calibrate, centre, drawn, he, seeded
from servemark.models.synthesis.images import image
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, Workload, define

CALIBRATION_SAMPLES = 8


class Sided(Protocol):
    """Interface of the sizes of networks that take square pictures."""

    @property
    def side(self) -> int:
        """Side of a picture, in pixels."""


class Sizes(Sided, Protocol):
    """Interface of all classifiers' sizes."""

    @property
    def classes(self) -> int:
        """Number of classes."""


Network = TypeVar("Network", bound=Sizes)
Own = TypeVar("Own")
"""A network's own sizes."""


def samples(sizes: Sided, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw pictures [3, side, side] with the statistics of natural images, normalised."""
    while True:
        yield {"image": image(rng, sizes.side, sizes.side)}


def read(path: Path) -> Iterator[Sample]:
    """Preprocess the pictures of ImageNet's `val` folder, or of any folder.

    Raises InputDataError naming the file.
    """
    folder = path / "val" if (path / "val").is_dir() else path
    for picture in image_folder.read(folder):
        yield {"image": picture}


def labelled(path: Path) -> LabelledSet:
    """ImageNet's validation pictures with their classes (servemark/datasets/image_folder.py). Raises InputDataError."""
    pictures = image_folder.classes(path / "val" if (path / "val").is_dir() else path)
    return LabelledSet.of(pictures, lambda file, label: Example(({"image": image_folder.load(file)},), label))


def seeded_classifier(
    name: str,
    network: Callable[[Own], Module],
    sizes: Own,
    samples: Callable[[Own, np.random.Generator], Iterator[Sample]],
    *,
    weights: Callable[[Module], None] = he,
    spread: float = 1.0,
) -> Module:
    """Seed a network, calibrate its statistics and spread its answers, so that requests get different classes.

    Random deep networks answer nearly the same to every picture. He's weights and BatchNorm statistics of synthetic
    requests keep activations of order 1; the last layer, which must be dense, then takes out what all requests have in
    common and scales what differs to `spread`.
    """
    import torch
    from torch import nn

    (batch,) = drawn(samples(sizes, np.random.default_rng(0)), CALIBRATION_SAMPLES)
    with seeded(name), torch.no_grad():
        model = network(sizes)
        weights(model)
        calibrate(model, batch)
        *_, head = (module for module in model.modules() if isinstance(module, nn.Linear))
        centre(head, model(batch), spread=spread)
    return model


def classification(
    name: str,
    title: str,
    citation: str,
    *,
    full: Variant[Network],
    tiny: Variant[Network] | None = None,
    slo_ms: float,
    origin: str | None = None,
    network: Callable[[Network], Module],
    weights: Callable[[Module], None] = he,
    spread: float = 1.0,
    suites: tuple[str, ...] = ("AI Matrix",),
    top1: float | None = None,
) -> Workload:
    """Describe a network that maps `image` [3, side, side] to `logits` [classes].

    It is seeded as `seeded_classifier` says; `top1` is the suites' target.
    """
    return define(
        name,
        title,
        full=full,
        tiny=tiny,
        task="image classification",
        suites=suites,
        inputs=lambda sizes: (Tensor("image", "FP32", (3, sizes.side, sizes.side)),),
        outputs=lambda sizes: (Tensor("logits", "FP32", (sizes.classes,)),),
        max_batch=64,
        slo=Slo(99, slo_ms),
        quality=Quality("top-1", top1, "ImageNet validation, shorter side 256, centre crop 224"),
        citation=citation,
        origin=origin,
        locustfile="classification",
        build=lambda name, sizes: seeded_classifier(name, network, sizes, samples, weights=weights, spread=spread),
        samples=samples,
        dataset="imagenet",
        read=read,
        labelled=labelled,
    )
