"""CycleGAN: a street scene from a label map (AIBench DC-AI-C5).

Zhu et al. 2017, "Unpaired Image-to-Image Translation using Cycle-Consistent Adversarial Networks" (ICCV), section 7.1:
the generator of Johnson et al. 2016, "Perceptual Losses for Real-Time Style Transfer" (ECCV), with 9 residual blocks
and pictures of 256 x 256, the defaults of AIBench's code. The direction is the one that the suite scores: Cityscapes'
labels to photographs. The discriminators are not served.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from servemark.datasets import cityscapes
from servemark.models.blocks.weights import seeded
from servemark.workload import Agreement, Module, Quality, Sample, Slo, Tensor, Variant, define

REGIONS = (8, 20)
PALETTE = np.array(
    [
        (128, 64, 128), (244, 35, 232), (70, 70, 70), (102, 102, 156), (190, 153, 153), (153, 153, 153), (250, 170, 30),
        (220, 220, 0), (107, 142, 35), (152, 251, 152), (70, 130, 180), (220, 20, 60), (255, 0, 0), (0, 0, 142),
        (0, 0, 70), (0, 60, 100), (0, 80, 100), (0, 0, 230), (119, 11, 32),
    ],
    np.float32,
)  # fmt: skip
"""Colours of the 19 evaluated classes, from road to bicycle (Cityscapes' own table)."""


@dataclass(frozen=True)
class Sizes:
    """Width of the first convolution, residual blocks and picture side in pixels."""

    width: int = 64
    blocks: int = 9
    side: int = 256


def network(sizes: Sizes) -> Module:
    """Define the generator: image [B, 3, side, side] in [-1, 1] -> image of the same shape and range.

    InstanceNorm has no weights of its own; the convolutions before it keep their biases, which it then takes out, since
    the published model has them.
    """
    import torch
    from torch import nn

    width = sizes.width

    def convolution(inputs: int, outputs: int, kernel: int, *, reflect: int) -> list[nn.Module]:
        return [nn.ReflectionPad2d(reflect), nn.Conv2d(inputs, outputs, kernel)]

    def normalised(outputs: int, layer: nn.Module) -> list[nn.Module]:
        return [layer, nn.InstanceNorm2d(outputs), nn.ReLU(inplace=True)]

    class Residual(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *convolution(channels, channels, 3, reflect=1),
                nn.InstanceNorm2d(channels),
                nn.ReLU(inplace=True),
                *convolution(channels, channels, 3, reflect=1),
                nn.InstanceNorm2d(channels),
            )

        def forward(self, features: torch.Tensor) -> torch.Tensor:
            added: torch.Tensor = self.body(features)
            return features + added

    def up(inputs: int, outputs: int) -> nn.Module:
        return nn.ConvTranspose2d(inputs, outputs, 3, stride=2, padding=1, output_padding=1)

    pad, stem = convolution(3, width, 7, reflect=3)
    return nn.Sequential(
        pad,
        *normalised(width, stem),
        *normalised(2 * width, nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)),
        *normalised(4 * width, nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1)),
        *(Residual(4 * width) for _ in range(sizes.blocks)),
        *normalised(2 * width, up(4 * width, 2 * width)),
        *normalised(width, up(2 * width, width)),
        *convolution(width, 3, 7, reflect=3),
        nn.Tanh(),
    )


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network as the authors do before training, N(0, 0.02); InstanceNorm keeps every layer in range."""
    from torch import nn

    with seeded(name):
        model = network(sizes)
        for module in model.modules():
            if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.get_parameter("bias"))
    return model.eval()


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw label maps: flat regions of class colours (a Voronoi diagram of random points)."""
    axis = np.arange(sizes.side, dtype=np.float32)
    while True:
        count = rng.integers(*REGIONS, endpoint=True)
        x, y = rng.uniform(0, sizes.side, (2, count, 1)).astype(np.float32)
        distance = (axis - x)[:, None, :] ** 2 + (axis - y)[:, :, None] ** 2  # [count, side, side]
        colours = PALETTE[rng.integers(len(PALETTE), size=count)] / np.float32(127.5) - 1
        yield {"image": np.ascontiguousarray(colours[distance.argmin(axis=0)].transpose(2, 0, 1))}


def read(path: Path) -> Iterator[Sample]:
    """Make one request of each of Cityscapes' validation label maps. Raises InputDataError naming the file."""
    for labels in cityscapes.read_labels(path, Sizes().side):
        yield {"image": 2 * labels - 1}


WORKLOAD = define(
    "cyclegan",
    "CycleGAN generator",
    full=Variant(Sizes(), parameters=11_378_179, flops=99_103_014_912),
    tiny=Variant(Sizes(width=8, blocks=2, side=32), parameters=50_947, flops=11_894_784),
    task="image to image",
    suites=("AIBench DC-AI-C5",),
    inputs=lambda sizes: (Tensor("image", "FP32", (3, sizes.side, sizes.side)),),
    outputs=lambda sizes: (Tensor("image_out", "FP32", (3, sizes.side, sizes.side)),),
    max_batch=8,
    slo=Slo(99, 100),
    quality=Quality(
        "FCN-8s pixel accuracy",
        0.52,
        "Cityscapes validation, photographs generated from labels. AIBench asks for three measures: accuracy by pixel "
        "0.52 within 0.005, by class 0.17 within 0.001, class IoU 0.11 within 0.001",
        unmeasured="another network judges the pictures, an FCN-8s trained on Cityscapes; `fcn8s` has random weights",
    ),
    citation="Zhu et al. 2017, Unpaired Image-to-Image Translation, ICCV (arXiv:1703.10593)",
    origin="The authors' generator in the sizes of AIBench's code. The three targets are the paper's, of smaller "
    "pictures.",
    locustfile="image_to_image",
    build=build,
    samples=samples,
    dataset=cityscapes.KEY,
    read=read,
    # ONNX Runtime sums a channel's 65,536 pixels one by one; its error is 40 times PyTorch's. Where a picture is flat,
    # an instance norm divides by nearly nothing, at the least the root of 1e-5, and enlarges that error up to 316
    # times.
    agreement=Agreement(spread_rtol=1e-2),
)
