"""Wasserstein GAN: a picture from a latent vector (AIBench DC-AI-C2).

Arjovsky, Chintala & Bottou 2017, "Wasserstein GAN" (ICML), section 4.2: the generator that is a ReLU MLP of 4 layers
with 512 hidden units, without a tanh at its end as in the authors' code. The critic, which only training and the
distance estimate need, is not served.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from servemark.models.blocks.weights import seeded
from servemark.workload import Module, Quality, Sample, Slo, Tensor, Variant, define

PIXEL_STD = 0.5
"""Spread of the pictures' pixels, nominally in [-1, 1]; with torch's defaults every picture is nearly the same grey."""


@dataclass(frozen=True)
class Sizes:
    """Length of the latent vector, hidden units and picture side in pixels."""

    latent: int = 100
    hidden: int = 512
    side: int = 64


def network(sizes: Sizes) -> Module:
    """Define the generator: z [B, latent] -> image [B, 3, side, side]."""
    from torch import nn

    hidden, side = sizes.hidden, sizes.side
    return nn.Sequential(
        nn.Linear(sizes.latent, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 3 * side * side),
        nn.Unflatten(1, (3, side, side)),
    )


def build(name: str, sizes: Sizes) -> Module:
    """Seed the generator so that the variance of the latent vector reaches the pixels."""
    from torch import nn

    with seeded(name):
        model = network(sizes)
        for module in model.modules():
            if isinstance(module, nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)
        output = model.get_submodule("6")
        nn.init.normal_(output.get_parameter("weight"), std=PIXEL_STD / sizes.hidden**0.5)
    return model.eval()


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw latent vectors from N(0, I)."""
    while True:
        yield {"z": rng.standard_normal(sizes.latent, dtype=np.float32)}


WORKLOAD = define(
    "wgan",
    "Wasserstein GAN (MLP generator)",
    full=Variant(Sizes(), parameters=6_880_768, flops=13_733_888),
    tiny=Variant(Sizes(hidden=32, side=16), parameters=30_688, flops=59_648),
    task="image generation",
    suites=("AIBench DC-AI-C2",),
    inputs=lambda sizes: (Tensor("z", "FP32", (sizes.latent,)),),
    outputs=lambda sizes: (Tensor("image", "FP32", (3, sizes.side, sizes.side)),),
    max_batch=64,
    slo=Slo(99, 10),
    quality=Quality(
        "estimated Earth-Mover distance",
        0.5,
        "LSUN bedrooms; critic clipped to 0.01, +/- 0.005",
        unmeasured="only the critic that was trained against the generator tells it, and that is not served",
    ),
    citation="Arjovsky et al. 2017, Wasserstein GAN, ICML (arXiv:1701.07875)",
    origin="The authors' perceptron generator, which AIBench's report describes. AIBench's own code runs a DCGAN by "
    "default; EM 0.5 is the report's.",
    locustfile="image_generation",
    build=build,
    samples=samples,
)
