"""Perspective Transformer Nets: an object's occupancy of space from one picture (AIBench DC-AI-C13).

Yan et al. 2016, "Perspective Transformer Nets: Learning Single-View 3D Object Reconstruction without 3D Supervision"
(NIPS), in the sizes of the authors' Torch code: image encoder and volume decoder. The perspective transformer only
projects the volume for the training loss and is not served. Pictures lie in [-1, 1] as in the TensorFlow version.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import gamma
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.datasets import shapenet_ptn
from servemark.models.blocks.weights import drawn, seeded
from servemark.workload import Example, InOrder, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

VOXELS = 32
CALIBRATION_PICTURES = 16
OCCUPIED_SHARE = 0.1
LOGIT_STD = 3.0
COVER = (0.2, 0.45)
"""Share of the picture that a rendered object covers."""


@dataclass(frozen=True)
class Sizes:
    """Filters of the first convolution (then twice and four times), fully connected units, identity code, decoder.

    The decoder begins with 3 cells a side, as the authors', or with 4, as their TensorFlow code, which doubles the side
    with each layer.
    """

    filters: int = 64
    dense: int = 1024
    identity: int = 512
    decoder: tuple[int, int, int] = (512, 256, 96)
    side: int = 64
    cells: int = 3


def network(sizes: Sizes) -> Module:
    """Define encoder and decoder: image [B, 3, side, side] -> occupancy probability [B, 32, 32, 32]."""
    from torch import nn

    first, second, third = sizes.decoder
    decoder = (
        nn.ConvTranspose3d(first, second, 4)
        if sizes.cells == 3
        else nn.ConvTranspose3d(first, second, 4, 2, 1),  # 6, 8
        nn.ReLU(),
        # 15 cells a side, 16
        nn.ConvTranspose3d(second, third, 5, 2) if sizes.cells == 3 else nn.ConvTranspose3d(second, third, 5, 2, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose3d(third, 1, 6, stride=2, padding=1 if sizes.cells == 3 else 2),  # 32
    )
    filters, cells, start = sizes.filters, (sizes.side // 8) ** 2, sizes.cells
    return nn.Sequential(
        nn.Conv2d(3, filters, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(filters, 2 * filters, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(2 * filters, 4 * filters, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * filters * cells, sizes.dense),
        nn.ReLU(),
        nn.Linear(sizes.dense, sizes.dense),
        nn.ReLU(),
        nn.Linear(sizes.dense, sizes.identity),
        nn.ReLU(),
        nn.Linear(sizes.identity, first * start**3),
        nn.ReLU(),
        nn.Unflatten(1, (first, start, start, start)),
        *decoder,
        nn.Flatten(1, 2),
        nn.Sigmoid(),
    )


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network and bring every layer's outputs to mean 0 and variance 1 on synthetic pictures.

    After Mishkin & Matas 2016, "All you need is a good init" (ICLR), with the means as well: what all pictures have in
    common would else drown their differences. The last bias leaves OCCUPIED_SHARE of the voxels above 0.5.
    """
    import torch
    from torch import nn

    (batch,) = drawn(samples(sizes, np.random.default_rng(0)), CALIBRATION_PICTURES)
    with seeded(name), torch.no_grad():
        model = network(sizes)
        for layer in model.children():
            if isinstance(layer, nn.Conv2d | nn.Linear | nn.ConvTranspose3d):
                weight, bias = layer.weight, layer.get_parameter("bias")
                nn.init.kaiming_normal_(weight, nonlinearity="relu")
                nn.init.zeros_(bias)
                outputs = layer(batch)
                gain = (1 if outputs.shape[1] > 1 else LOGIT_STD) / outputs.std()
                weight.mul_(gain)
                bias.sub_(gain * outputs.mean(dim=[0, *range(2, outputs.dim())]))
            elif isinstance(layer, nn.Sigmoid):
                bias.sub_(torch.quantile(batch[:, ::2, ::2, ::2], 1 - OCCUPIED_SHARE))
            batch = layer(batch)
    return model.eval()


def render(rng: np.random.Generator, side: int) -> npt.NDArray[np.float32]:
    """Draw a shaded convex blob (a superellipsoid seen from the side) on black or white, [3, side, side] in [0, 1]."""
    power, stretch, turn = rng.uniform(1.5, 4), rng.uniform(0.6, 1.6), rng.uniform(0, np.pi)
    unit_area = 4 * gamma(1 + 1 / power) ** 2 / gamma(1 + 2 / power)  # of |u|^p + |v|^p < 1
    radius = np.sqrt(4 * rng.uniform(*COVER) / unit_area)  # the picture is [-1, 1]^2
    axis = np.linspace(-1, 1, side)
    centre = rng.uniform(-0.1, 0.1, 2)
    x, y = axis[None, :] - centre[0], axis[:, None] - centre[1]
    u = (np.cos(turn) * x + np.sin(turn) * y) / (radius * np.sqrt(stretch))
    v = (np.cos(turn) * y - np.sin(turn) * x) / (radius / np.sqrt(stretch))
    depth = np.maximum(1 - np.abs(u) ** power - np.abs(v) ** power, 0) ** (1 / power)
    normal = np.stack([np.sign(w) * np.abs(w) ** (power - 1) for w in (u, v, depth)])
    normal /= np.linalg.norm(normal, axis=0) + 1e-6
    light = np.array([*rng.uniform(-1, 1, 2), 1.0])
    brightness = 0.3 + 0.7 * np.clip(np.tensordot(light / np.linalg.norm(light), normal, 1), 0, 1)
    colour = rng.uniform(0.2, 1, 3)[:, None, None]
    return np.where(depth > 0, colour * brightness, float(rng.integers(2))).astype(np.float32)


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw rendered objects."""
    while True:
        yield {"image": 2 * render(rng, sizes.side) - 1}


def read(path: Path) -> Iterator[Sample]:
    """Make one request of each view of ShapeNet's test objects. Raises InputDataError with file and record."""
    for view in shapenet_ptn.read(path):
        yield {"image": 2 * view - 1}


def labelled(path: Path) -> LabelledSet:
    """The same with their volumes. Raises InputDataError with file and record."""
    views = InOrder(lambda: shapenet_ptn.labelled(path))
    return LabelledSet.of(views, lambda view, volume: Example(({"image": 2 * view - 1},), volume))


TITLE = "Perspective Transformer Nets (encoder and volume decoder)"
reconstructor = partial(
    define,
    task="3D reconstruction",
    inputs=lambda sizes: (Tensor("image", "FP32", (3, sizes.side, sizes.side)),),
    outputs=lambda _: (Tensor("voxels", "FP32", (VOXELS, VOXELS, VOXELS)),),
    max_batch=64,
    slo=Slo(99, 20),
    quality=Quality("mean IoU", 0.4583, "ShapeNet chairs, 24 views, occupancy threshold 0.5"),
    citation="Yan et al. 2016, Perspective Transformer Nets, NIPS (arXiv:1612.00814)",
    locustfile="reconstruction_3d",
    build=build,
    samples=samples,
    dataset=shapenet_ptn.KEY,
    read=read,
    labelled=labelled,
)
"""Describes one of the two decoders."""

WORKLOAD = reconstructor(
    "reconstruction3d",
    TITLE,
    suites=("AIBench DC-AI-C13",),
    origin="The authors' Torch sizes. AIBench's TensorFlow code is twice the work (`reconstruction3d_aibench`), its "
    "PyTorch code an AtlasNet of points (`atlasnet`). 45.83 % IoU is the report's.",
    full=Variant(Sizes(), parameters=37_955_297, flops=2_190_458_368),
    tiny=Variant(Sizes(filters=4, dense=64, identity=32, decoder=(32, 16, 6)), parameters=150_767, flops=17_333_728),
)
