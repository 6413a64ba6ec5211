"""AtlasNet: an object's surface as points, from one picture (AIBench DC-AI-C13, variant).

Groueix et al. 2018, "AtlasNet: A Papier-Mache Approach to Learning 3D Surface Generation" (CVPR), single-view form with
the sizes that AIBench's PyTorch code takes over: a ResNet-18 answers 1,024 features, and each of 25 small networks
moves the points of a square into space, 2,500 points in all. Points of a square lie on a regular grid, as when the
authors generate meshes; while training they are drawn at random.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from servemark.models.blocks import resnet
from servemark.models.blocks.weights import calibrate, centre, drawn, he, seeded
from servemark.models.reconstruction3d import render
from servemark.workload import Module, Quality, Sample, Slo, Tensor, Variant, define

CALIBRATION_PICTURES = 8
SPREAD = 0.5
"""Deviation of the coordinates before the tanh."""


@dataclass(frozen=True)
class Sizes:
    """Squares, points along a side of one, features of a picture, the encoder's blocks and width, picture side."""

    squares: int = 25
    grid: int = 10
    features: int = 1024
    blocks: tuple[int, int, int, int] = (2, 2, 2, 2)
    width: int = 64
    side: int = 224


def network(sizes: Sizes) -> Module:
    """Define AtlasNet: image [B, 3, side, side] -> points [B, squares * grid^2, 3], each in (-1, 1)."""
    import torch
    from torch import nn

    encoder = resnet.Sizes(sizes.blocks, sizes.width, classes=sizes.features, side=sizes.side, bottleneck=False)
    first = 2 + sizes.features
    widths = (first, first, first // 2, first // 4)

    def decoder() -> nn.Sequential:
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(widths):
            layers += [nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs), nn.ReLU()]
        return nn.Sequential(*layers, nn.Conv1d(widths[-1], 3, 1))

    class AtlasNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = resnet.network(encoder)
            self.decoders = nn.ModuleList(decoder() for _ in range(sizes.squares))
            axis = torch.linspace(0, 1, sizes.grid)
            square = torch.stack(torch.meshgrid(axis, axis, indexing="ij")).flatten(1)  # [2, points]
            self.register_buffer("square", square.unsqueeze(0), persistent=False)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            features = self.encoder(image).unsqueeze(2)
            square = self.get_buffer("square")
            inputs = torch.cat([square.expand(features.shape[0], -1, -1), features.expand(-1, -1, square.shape[2])], 1)
            return torch.tanh(torch.cat([decoder(inputs) for decoder in self.decoders], dim=2)).transpose(1, 2)

    return AtlasNet()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network, so that surfaces follow the picture."""
    import torch
    from torch import nn

    (batch,) = drawn(samples(sizes, np.random.default_rng(0)), CALIBRATION_PICTURES)
    with seeded(name), torch.no_grad():
        model = network(sizes)
        he(model)
        encoder = model.get_submodule("encoder")
        calibrate(encoder, batch)
        head = encoder.get_submodule("fc")
        assert isinstance(head, nn.Linear)
        centre(head, encoder(batch))
        calibrate(model, batch)
        for decoder in model.get_submodule("decoders").children():
            nn.init.kaiming_normal_(decoder.get_parameter("9.weight"), nonlinearity="relu").mul_(SPREAD)
    return model


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw rendered objects, in [0, 1]."""
    while True:
        yield {"image": render(rng, sizes.side)}


WORKLOAD = define(
    "atlasnet",
    "AtlasNet",
    full=Variant(Sizes(), parameters=54_614_274, flops=12_183_721_264),
    tiny=Variant(
        Sizes(squares=2, grid=4, features=30, blocks=(1, 1, 1, 1), width=8, side=32), parameters=83_980, flops=1_205_504
    ),
    task="3D reconstruction",
    suites=("AIBench DC-AI-C13, variant",),
    inputs=lambda sizes: (Tensor("image", "FP32", (3, sizes.side, sizes.side)),),
    outputs=lambda sizes: (Tensor("points", "FP32", (sizes.squares * sizes.grid**2, 3)),),
    max_batch=32,
    slo=Slo(99, 50),
    quality=Quality(
        "Chamfer distance",
        None,
        "ShapeNet's 13 categories, 2,500 points of each surface",
        unmeasured="it needs points of the objects' surfaces, and the zoo reads their volumes",
    ),
    citation="Groueix et al. 2018, AtlasNet, CVPR (arXiv:1802.05384)",
    origin="The authors' network for single views, which AIBench's PyTorch code is. The report's 45.83 % IoU is of "
    "volumes (`reconstruction3d`).",
    locustfile="reconstruction_3d",
    build=build,
    samples=samples,
)
