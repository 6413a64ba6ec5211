"""FCN-8s: the class of each pixel of a street scene (AIBench DC-AI-C5, variant).

Long et al. 2015, "Fully Convolutional Networks for Semantic Segmentation" (CVPR): VGG-16 with its dense layers as
convolutions, whose scores are enlarged twice and added to those of two earlier layers. As in the authors' Caffe network
the first convolution pads by 100 pixels and the sums are cropped. AIBench judges CycleGAN's pictures by one trained on
Cityscapes, whose 19 classes and whose pictures of 256 x 256 these are. Its judge first enlarges them to 1024 x 2048.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from servemark.models.blocks.weights import drawn, he, seeded
from servemark.models.synthesis.images import image
from servemark.models.vgg16 import STAGES
from servemark.workload import Module, Quality, Sample, Slo, Tensor, Variant, define

if TYPE_CHECKING:
    import torch

BORDER = 100
"""Pixels around the picture."""
CALIBRATION_PICTURES = 2


@dataclass(frozen=True)
class Sizes:
    """Divisor of VGG's widths, width of the former dense layers, classes and picture side."""

    divisor: int = 1
    dense: int = 4096
    classes: int = 19
    side: int = 256


def network(sizes: Sizes) -> Module:
    """Define FCN-8s: image [B, 3, side, side] -> scores [B, classes, side, side]."""
    import torch
    from torch import nn

    widths = [3, *(width // sizes.divisor for width, _ in STAGES)]
    classes = sizes.classes

    def stage(index: int) -> nn.Sequential:
        inputs, width = widths[index : index + 2]
        layers: list[nn.Module] = []
        for number in range(STAGES[index][1]):
            padding = BORDER if not index and not number else 1
            layers += [nn.Conv2d(inputs if not number else width, width, 3, padding=padding), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers, nn.MaxPool2d(2, ceil_mode=True))

    def enlarge(times: int) -> nn.ConvTranspose2d:
        return nn.ConvTranspose2d(classes, classes, 2 * times, times, bias=False)

    def cropped(x: torch.Tensor, start: int, like: int) -> torch.Tensor:
        return x[:, :, start : start + like, start : start + like]

    class Fcn8s(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.early = nn.Sequential(*(stage(index) for index in range(3)))
            self.middle, self.late = stage(3), stage(4)
            first, second = nn.Conv2d(widths[-1], sizes.dense, 7), nn.Conv2d(sizes.dense, sizes.dense, 1)
            self.dense = nn.Sequential(first, nn.ReLU(), nn.Dropout2d(), second, nn.ReLU(), nn.Dropout2d())
            self.score_early, self.score_middle = nn.Conv2d(widths[3], classes, 1), nn.Conv2d(widths[4], classes, 1)
            self.score_late = nn.Conv2d(sizes.dense, classes, 1)
            self.enlarge_late, self.enlarge_middle, self.enlarge = enlarge(2), enlarge(2), enlarge(8)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            early = self.early(image)
            middle = self.middle(early)
            scores = self.enlarge_late(self.score_late(self.dense(self.late(middle))))
            scores = self.enlarge_middle(scores + cropped(self.score_middle(middle), 5, scores.shape[2]))
            scores = self.enlarge(scores + cropped(self.score_early(early), 9, scores.shape[2]))
            return cropped(scores, 31, sizes.side)

    return Fcn8s()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network; each of the three scores gets mean 0 and deviation 1, and enlarging is bilinear."""
    import torch
    from torch import nn

    (pictures,) = drawn(samples(sizes, np.random.default_rng(0)), CALIBRATION_PICTURES)
    with seeded(name), torch.no_grad():
        model = network(sizes).eval()
        he(model)
        for layer in model.modules():
            if isinstance(layer, nn.ConvTranspose2d):
                layer.weight.copy_(_bilinear(sizes.classes, layer.kernel_size[0]))

        def standardise(layer: nn.Conv2d, _: object, scores: torch.Tensor) -> None:
            gain = 1 / scores.std()
            layer.weight.mul_(gain)
            layer.get_parameter("bias").sub_(gain * scores.mean(dim=(0, 2, 3)))

        heads = [model.get_submodule(f"score_{part}") for part in ("early", "middle", "late")]
        hooks = [head.register_forward_hook(standardise) for head in heads]
        model(pictures)
        for hook in hooks:
            hook.remove()
    return model


def _bilinear(classes: int, size: int) -> "torch.Tensor":
    """Weights [classes, classes, size, size] that enlarge each class's scores by themselves."""
    import torch

    tent = 1 - (torch.arange(size) - (size - 1) / 2).abs() / (size / 2)
    return torch.eye(classes)[:, :, None, None] * (tent[:, None] * tent)


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw pictures with the statistics of natural images, normalised."""
    while True:
        yield {"image": image(rng, sizes.side, sizes.side)}


WORKLOAD = define(
    "fcn8s",
    "FCN-8s",
    full=Variant(Sizes(), parameters=134_456_985, flops=147_019_450_656),
    tiny=Variant(Sizes(divisor=20, dense=32, classes=5, side=32), parameters=82_765, flops=85_871_712),
    task="semantic segmentation",
    suites=("AIBench DC-AI-C5, variant",),
    inputs=lambda sizes: (Tensor("image", "FP32", (3, sizes.side, sizes.side)),),
    outputs=lambda sizes: (Tensor("scores", "FP32", (sizes.classes, sizes.side, sizes.side)),),
    max_batch=4,
    slo=Slo(99, 200),
    quality=Quality(
        "class IoU",
        None,
        "Cityscapes validation",
        unmeasured="the zoo reads Cityscapes' label maps as pictures, for `cyclegan`, and not its photographs",
    ),
    citation="Long et al. 2015, Fully Convolutional Networks for Semantic Segmentation, CVPR (arXiv:1411.4038)",
    origin="The authors' Caffe network with the classes of Cityscapes. AIBench takes one with trained weights as the "
    "judge of CycleGAN's pictures, and serves none.",
    locustfile="semantic_segmentation",
    build=build,
    samples=samples,
)
